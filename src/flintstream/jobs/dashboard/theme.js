// Sets the colours before anything is drawn, so that a page in the dark never flashes white. A classic script on
// purpose: modules run after the first paint.
(() => {
  const KEY = "flintstream.theme";
  const NAMES = ["auto", "light", "dark"];

  function stored() {
    try {
      const name = localStorage.getItem(KEY);
      return NAMES.includes(name) ? name : "auto";
    } catch {
      return "auto"; // storage may be forbidden; the system's choice holds then
    }
  }

  function show(name) {
    document.documentElement.dataset.theme = name;
  }

  window.flintstreamTheme = {
    current: stored,
    next() {
      const name = NAMES[(NAMES.indexOf(document.documentElement.dataset.theme) + 1) % NAMES.length];
      try {
        localStorage.setItem(KEY, name);
      } catch {
        // it holds for this page only
      }
      show(name);
      return name;
    },
  };
  show(stored());
})();
