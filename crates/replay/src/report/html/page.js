"use strict";
(function () {
  const text = document.getElementById("data").textContent;
  const report = JSON.parse(text);

  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", function () {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    save.href = url;
    setTimeout(function () { URL.revokeObjectURL(url); }, 10000);
  });

  // The same three digits as the rest of the page.
  function bytes(n) {
    if (n < 1024) return n + " B";
    const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let value = n / 1024, unit = 0;
    while (value >= 1023.5 && unit < 5) { value /= 1024; unit += 1; }
    return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + " " + units[unit];
  }

  const plot = document.getElementById("plot");
  if (!plot) return;
  const cursor = document.getElementById("cursor");
  const when = document.getElementById("when");
  const spoken = document.getElementById("spoken");
  const cells = Array.from(document.querySelectorAll("[data-line]"));
  const before = [when.textContent].concat(cells.map(function (c) { return c.textContent; }));
  const designs = report.designs;
  const last = designs[designs.length - 1].series;
  const end = Math.max.apply(null, designs.map(function (d) {
    return d.series.length ? d.series[d.series.length - 1].t : 0;
  })) || 1;
  let at = -1;

  // The last sample that is not after `t`.
  function nearest(series, t) {
    let low = 0, high = series.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (series[middle].t <= t) low = middle; else high = middle - 1;
    }
    return series[low];
  }
  function show(i, speak) {
    if (!last.length) return;
    at = Math.min(Math.max(i, 0), last.length - 1);
    const t = last[at].t;
    const x = Math.min(t / end, 1) * 100 + "%";
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    when.textContent = "at " + t.toFixed(end < 10 ? 3 : 1) + " s";
    cells[0].textContent = bytes(last[at].live);
    designs.forEach(function (d, k) {
      const sample = d.series.length ? nearest(d.series, t) : null;
      if (cells[k + 1]) cells[k + 1].textContent = sample ? bytes(sample.slab) : "–";
    });
    if (speak) {
      const said = cells.map(function (c) { return c.parentElement.textContent.trim(); });
      spoken.textContent = when.textContent + ": " + said.join(", ");
    }
  }
  function hide() {
    at = -1;
    cursor.setAttribute("visibility", "hidden");
    when.textContent = before[0];
    cells.forEach(function (c, k) { c.textContent = before[k + 1]; });
  }
  plot.addEventListener("pointermove", function (e) {
    const box = plot.getBoundingClientRect();
    const t = (e.clientX - box.left) / box.width * end;
    show(last.indexOf(nearest(last, t)), false);
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", function (e) {
    const page = Math.max(1, Math.round(last.length / 20));
    const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: page, PageDown: -page }[e.key];
    if (e.key === "Escape") return hide();
    if (e.key === "Home") show(0, true);
    else if (e.key === "End") show(last.length - 1, true);
    else if (step) show(at < 0 ? 0 : at + step, true);
    else return;
    e.preventDefault();
  });
})();
