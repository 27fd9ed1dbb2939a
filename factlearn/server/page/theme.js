// Before the first paint: the colours chosen last time, otherwise those of the system.
(() => {
  const chosen = localStorage.getItem("factlearn-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
