document.getElementById("app").textContent = "factlearn";
