"""Object recognition: tasks with classes and heads of their own, the paper's section 5.1."""
