// Looks at a page as someone would who cannot see it, or hardly: returns a list of complaints, empty if there are none.
() => {
  const complaints = [];
  const visible = (element) => {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 0 && box.height > 0 && style.visibility !== "hidden" && !element.closest("[hidden], .unseen");
  };
  const where = (element) => `${element.localName}.${element.getAttribute("class") ?? ""} "${(element.textContent ?? "").trim().slice(0, 40)}"`;
  const byIds = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
  const nameOf = (element) =>
    (element.getAttribute("aria-label")
      ?? (element.hasAttribute("aria-labelledby") ? byIds(element.getAttribute("aria-labelledby")) : null)
      ?? (element.labels?.length ? [...element.labels].map((label) => label.textContent).join(" ") : null)
      ?? (element.matches("input, select") ? "" : element.textContent)
      ?? "").trim();

  const controls = "a[href], button, input, select, summary, [tabindex='0'], [role='button'], [role='img'], [role='log'], dialog, nav, [role='region'], [role='group']";
  for (const element of document.querySelectorAll(controls)) {
    if (visible(element) && !nameOf(element)) complaints.push(`no name: ${where(element)}`);
  }
  for (const element of document.querySelectorAll("[tabindex]")) {
    if (element.tabIndex > 0) complaints.push(`tabindex above 0: ${where(element)}`);
  }
  for (const image of document.querySelectorAll("img")) if (!image.hasAttribute("alt")) complaints.push(`no alt: ${image.src}`);
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((each, index) => ids.indexOf(each) !== index))) complaints.push(`id twice: ${id}`);
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")) {
    const named = [element.getAttribute("aria-labelledby"), element.getAttribute("aria-describedby"), element.getAttribute("for")];
    for (const id of named.filter(Boolean)) if (!document.getElementById(id)) complaints.push(`names an id that is not there: ${id}`);
  }

  const landmarks = { "body > header": 1, main: 1, "body > footer": 1, h1: 1 };
  for (const [selector, count] of Object.entries(landmarks)) {
    const found = [...document.querySelectorAll(selector)].length;
    if (found !== count) complaints.push(`${found} of ${selector}`);
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const mine = Number(heading.localName[1]);
    if (heading.closest("[hidden]")) continue;
    if (mine > level + 1) complaints.push(`heading skips a level: ${where(heading)}`);
    level = mine;
  }
  for (const table of document.querySelectorAll("table")) {
    if (!visible(table)) continue;
    if (!table.querySelector("thead th[scope='col']")) complaints.push("a table without heads of columns");
    const named = table.caption ?? table.closest("[role='region'][aria-label]");
    if (!named) complaints.push("a table without a caption");
  }

  const rgba = (text) => {
    const numbers = text.match(/-?[\d.]+(e-?\d+)?%?/g)?.map(Number) ?? [0, 0, 0, 0];
    const scale = text.startsWith("color(srgb") ? 255 : 1;
    const [r, g, b] = numbers.slice(0, 3).map((each) => each * scale);
    return [r, g, b, numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((index) => top[index] * top[3] + below[index] * (1 - top[3])).concat(1);
  const backgroundOf = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const isShape = each instanceof SVGElement;
      const box = each.matches?.("g.fs-operator") ? each.querySelector(".fs-box") : null;
      const colour = rgba(box ? getComputedStyle(box).fill : isShape ? "rgba(0, 0, 0, 0)" : getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] >= 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const hasOwnText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  for (const element of document.querySelectorAll("body *")) {
    if (!hasOwnText(element) || !visible(element) || element.closest(":disabled, title, desc, noscript, option")) continue;
    const style = getComputedStyle(element);
    const behind = backgroundOf(element);
    const ink = over(rgba(element instanceof SVGElement ? style.fill : style.color), behind);
    const ratio = contrast(ink, behind);
    if (ratio < 4.5) complaints.push(`contrast ${ratio.toFixed(2)}: ${where(element)}`);
  }
  for (const element of document.querySelectorAll("button, input, select")) {
    const box = element.getBoundingClientRect();
    const label = element.labels?.[0]?.getBoundingClientRect();
    if (visible(element) && Math.max(box.height, label?.height ?? 0) < 20) complaints.push(`too small: ${where(element)}`);
  }
  if (document.scrollingElement.scrollWidth > innerWidth) complaints.push("the page is wider than the screen");
  return complaints;
};
