// Keeps a page of the console live; the page is complete without it. The markup that it reads is described in
// omega/web/console/live.py. One event stream serves all tabs of a browser; a hidden tab has none.
"use strict";
(() => {
  const { cell } = document.body.dataset;
  const url = cell ? `/cells/${encodeURIComponent(cell)}/live` : "", LOG_CHARACTERS = 1 << 20;
  const HIDDEN = /\x1b\[[0-?]*[ -/]*[@-~]|[\0-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g;
  const find = (selector, within = document) => [...within.querySelectorAll(selector)];
  const keyed = (part, key) => part.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const notice = document.createElement("p"), stamp = document.getElementById("read") || {};
  const dirty = new Set();  // names of parts whose topics changed
  let pace = 2, due = 0, timer = 0, busy = false, failures = 0, stopped = false;  // pace: seconds between updates
  let readMs = 0, readAt = 0;  // time of the last reading, and when it came here by a clock that does not jump

  // Times are in the server's zone, like all others of a page.
  const zoned = (ms) => new Date(ms + 1000 * (stamp.dataset?.offset || 0)).toISOString();

  function say(text) {
    if (stopped) return;  // the last word stands: an update may still be on its way
    const said = text + (text && readMs ? ` The last reading is of ${zoned(readMs).slice(0, 19).replace("T", " ")}.` : "");
    if (!notice.isConnected) document.querySelector("main").prepend(notice);
    if (notice.textContent !== said) notice.textContent = said;
    Object.assign(notice, { role: "status", className: text ? "message note" : "" });
  }
  const read = (ms) => ms && ms !== readMs && ([readMs, readAt, stamp.textContent] = [ms, performance.now(), zoned(ms).slice(11, 19)]);

  // Elements are changed in place, so that focus, selection, scroll positions and open details stay.
  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE && (node.dataset.key || node.id)) || "";
  const isOwn = (node, name) => /^(tabindex|checked)$/.test(name) || (name === "open" && /^(DETAILS|DIALOG)$/.test(node.nodeName));

  function become(now, next) {
    for (const { name, value } of next.attributes) {
      if (now.getAttribute(name) !== value && !isOwn(now, name)) now.setAttribute(name, value);
    }
    const extra = [...now.attributes].filter(({ name }) => !next.hasAttribute(name) && !isOwn(now, name));
    extra.forEach(({ name }) => now.removeAttribute(name));
    const known = new Map(), wanted = new Set([...next.children].map(keyOf));
    for (const child of [...now.children].filter(keyOf)) {
      if (wanted.has(keyOf(child))) known.set(keyOf(child), child);
      else child.remove();
    }
    const spare = new Set(now.childNodes);
    let at = now.firstChild;
    for (const want of [...next.childNodes]) {
      const key = keyOf(want);
      const have = key ? known.get(key) : at && !keyOf(at) ? at : null;
      if (!have || have.nodeName !== want.nodeName) {
        if (want.dataset && "same" in want.dataset) throw new Error("a row is missing");
        now.insertBefore(want, at);
        continue;
      }
      spare.delete(have);
      if (have === at) at = at.nextSibling;
      else now.insertBefore(have, at);
      if (have.nodeType !== Node.ELEMENT_NODE) have.data !== want.data && (have.data = want.data);
      else if (!("same" in want.dataset) && !have.isEqualNode(want)) become(have, want);
    }
    spare.forEach((node) => node.remove());
  }

  const parsed = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;

  function swap(part, update) {
    const focus = document.activeElement, selection = getSelection();
    const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = selection;
    const rows = Object.entries(update.rows || {}).map(([key, html]) => [key, parsed(html).firstElementChild]);
    const next = part.cloneNode(false);
    next.append(parsed(update.html || ""));
    for (const [key, row] of rows) update.html ? keyed(next, key).replaceWith(row) : become(keyed(part, key), row);
    if ("html" in update) become(part, next);
    for (const [key, runs] of Object.entries(update.levels || {})) paint(keyed(part, key), runs);
    if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
    if (anchorNode && !isCollapsed && anchorNode.isConnected && focusNode.isConnected) {
      const within = (node, offset) => [node, Math.min(offset, node.length ?? node.childNodes.length)];
      selection.setBaseAndExtent(...within(anchorNode, anchorOffset), ...within(focusNode, focusOffset));
    }
  }

  // Updates: the page's own URL with the hashes of the parts that may have changed.
  function changed(topics) {
    for (const { dataset } of find("[data-part]")) {
      const mine = [dataset.part, ...(dataset.topics || "").split(" ")];
      if (!topics || topics.some((topic) => mine.includes(topic))) dirty.add(dataset.part);
    }
    plan();
  }

  function plan() {
    if (timer || busy || stopped || document.hidden || !dirty.size) return;
    timer = setTimeout(update, Math.max(0, due - performance.now()));
  }

  async function update() {
    const known = find("[data-part]").map(({ dataset }) => dataset).filter(({ part }) => dirty.has(part));
    const asked = known.map(({ part, hash }) => `${part}=${hash || ""}`).join(",");
    [timer, busy] = [0, true];
    dirty.clear();
    try {
      const headers = { "Omega-Parts": asked, Accept: "application/json" };
      const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(30000) });
      pace = Number(answer.headers.get("Omega-Pace")) || pace;
      const json = (answer.headers.get("Content-Type") || "").includes("json") ? await answer.json() : {};
      if (answer.ok && json.parts) apply(json);
      else if (answer.status < 500 && answer.status !== 429) end(json.detail || answer.statusText);
      else throw new Error(json.detail);
      failures = 0;
    } catch {
      failures += 1;
      known.forEach(({ part }) => dirty.add(part));
      if (failures > 1) say("The server does not answer; the page continues by itself.");
    }
    [busy, due] = [false, performance.now() + 1000 * Math.max(pace, Math.min(30, 2 ** failures - 1))];
    plan();
  }

  function apply(answer) {
    read(answer.at_ms);
    if (notice.isConnected) say("");
    if ((answer.gone || []).includes("loading")) return location.reload();
    for (const part of find("[data-part]")) {
      const name = part.dataset.part, update = answer.parts[name];
      if (!update) continue;
      try {
        swap(part, update);
        part.dataset.hash = update.hash;
      } catch {
        part.dataset.hash = "";  // what is shown is not what the server assumed: the next update has the whole part
        dirty.add(name);
      }
    }
    keepSelected();
    (answer.more || []).forEach((name) => dirty.add(name));
  }

  function end(why) {
    say(`This page is no longer updated: ${why || "the server ended the stream"}.`);
    close((stopped = true));
  }

  // Rows that are selected stay so, also when they leave the page: the form has them as hidden fields, and says so.
  const boxes = () => find('td.pick input[form="change"]');
  function keepSelected() {
    const form = document.getElementById("change"), said = form?.querySelector("[data-selected]");
    if (!said) return;
    const kept = new Map(find("[data-kept]", form).map((field) => [field.value, field]));
    for (const box of boxes()) {
      if (!kept.has(box.value)) continue;
      box.checked = true;
      kept.get(box.value).remove();
      kept.delete(box.value);
      selected.set(box.value, box.name);
    }
    const shown = new Set(boxes().map(({ value }) => value));
    for (const [value, name] of selected) {
      if (shown.has(value)) continue;
      const field = Object.assign(document.createElement("input"), { type: "hidden", name, value });
      field.dataset.kept = "";
      form.append(field);
      kept.set(value, field);
      selected.delete(value);
    }
    boxes().forEach((box) => (box.checked ? selected.set(box.value, box.name) : selected.delete(box.value)));
    said.textContent = `${selected.size + kept.size}${kept.size ? `, of which ${kept.size} left this page` : ""}`;
  }
  const selected = new Map();

  // The stream: one tab at a time holds the lock; the others receive its messages by the channel.
  let channel = null, source = null, release = null, waiting = null;
  function hear(message) {
    if (message.again === false) return end(message.detail);
    read(message.at_ms);
    changed(message.topics || []);
  }

  const lead = () => new Promise((resolve) => {
    const share = ({ data }) => {
      channel.postMessage(JSON.parse(data));
      hear(JSON.parse(data));
    };
    release = resolve;
    source = new EventSource(url);
    source.onmessage = share;
    source.addEventListener("end", share);
    source.onopen = () => changed(null);
    source.onerror = () => {
      changed(null);
      if (!source || source.readyState !== EventSource.CLOSED) return;  // it connects again by itself
      close();  // the answer was no stream: the update gets the reason
      setTimeout(open, 5000);
    };
  });

  function open() {
    if (!url || stopped || document.hidden || waiting) return;
    const name = `omega ${url}`;
    channel = new BroadcastChannel(name);
    channel.onmessage = (event) => hear(event.data);
    waiting = new AbortController();
    // Without a secure context a browser has no locks: each visible tab then has a stream.
    if (navigator.locks) navigator.locks.request(name, { signal: waiting.signal }, lead).catch(() => {});
    else lead();
  }

  function close() {
    if (waiting) waiting.abort();
    if (source) source.close();
    if (release) release();
    if (channel) channel.close();
    channel = source = release = waiting = null;
  }

  // Ages count from the time of the last reading.
  function age(seconds) {
    const two = (whole, unit) => String(Math.floor(whole)).padStart(2, "0") + unit, whole = Math.max(0, seconds);
    if (whole < 60) return `${Math.floor(whole)}s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60, "s")}`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h${two((whole % 3600) / 60, "m")}`;
    return `${Math.floor(whole / 86400)}d${two((whole % 86400) / 3600, "h")}`;
  }

  function grow() {
    const now = readMs + performance.now() - readAt;
    for (const { dateTime, firstChild } of readMs && !document.hidden ? find("time.age") : []) {
      const text = age((now - Date.parse(dateTime)) / 1000);
      if (firstChild && firstChild.data !== text) firstChild.data = text;
    }
  }

  // Heat maps (omega/web/console/heat.py): the cursor is at a square of a block; arrow keys and the pointer move it.
  let cursor = null, card = 0;
  const columnsOf = (svg) => svg.viewBox.baseVal.width;
  const draw = (kind, d) => parsed(`<svg><path class="${kind}" d="${d}"/></svg>`).firstChild.firstChild;

  function paint(svg, runs) {
    const columns = columnsOf(svg), outlines = {};
    const squares = [...svg.dataset.levels];
    for (const [at, text] of Object.entries(runs)) squares.splice(at, text.length, ...text);
    const levels = (svg.dataset.levels = squares.join(""));
    for (let at = 0; at < levels.length; at += columns) {
      for (const { 0: run, index } of levels.slice(at, at + columns).matchAll(/(.)\1*/g)) {
        outlines[run[0]] = `${outlines[run[0]] || ""}M${index} ${at / columns}h${run.length}`;
      }
    }
    const paths = Object.keys(outlines).sort().map((level) => draw(`l${level}`, outlines[level]));
    svg.replaceChildren(...paths, ...find(".cursor", svg));
  }

  function machineAt(svg, square) {
    for (const range of svg.dataset.machines.split(",")) {
      const [first, last = first] = range.split("-").map(Number);
      if (square <= last - first) return first + square;
      square -= last - first + 1;
    }
  }

  function point(heat, svg, square) {
    if (cursor && cursor.svg === svg && cursor.square === square) return;
    cursor = { svg, square };
    find(".cursor", heat).forEach((path) => path.remove());
    const y = Math.floor(square / columnsOf(svg)) - 0.46;
    svg.append(draw("cursor", `M${(square % columnsOf(svg)) - 0.03} ${y}h.92v.92h-.92z`));
    clearTimeout(card);
    card = setTimeout(async () => {
      const answer = await fetch(`${heat.dataset.heat}card?machine=${machineAt(svg, square)}`);
      if (answer.ok) document.getElementById("card")?.replaceChildren(parsed(await answer.text()));
    }, 150);
  }

  function press(event) {
    const heat = event.target, blocks = heat.dataset.heat ? find("svg[data-machines]", heat) : [];
    if (!blocks.length || !/^Arrow|^Enter/.test(event.key)) return;
    const { svg, square } = cursor && heat.contains(cursor.svg) ? cursor : { svg: blocks[0], square: -1 };
    if (event.key === "Enter") return (location.href = `${heat.dataset.heat}machines/${machineAt(svg, square)}`);
    event.preventDefault();
    const columns = columnsOf(svg), size = svg.dataset.levels.length;
    const to = square + { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const next = blocks[blocks.indexOf(svg) + (to < 0 ? -1 : to >= size ? 1 : 0)];
    if (next) point(heat, next, next === svg ? to : to < 0 ? next.dataset.levels.length - 1 : 0);
    next?.scrollIntoView({ block: "nearest" });
  }

  function touch(event) {
    const heat = event.target.closest?.("[data-heat]"), svg = event.target.closest?.("svg[data-machines]");
    if (!heat || !svg) return;
    const box = svg.getBoundingClientRect(), columns = columnsOf(svg), size = box.width / columns;
    const at = (pixels) => Math.floor(pixels / size);
    const square = at(event.clientY - box.top) * columns + Math.min(columns - 1, at(event.clientX - box.left));
    if (square < 0 || square >= svg.dataset.levels.length) return;
    if (event.type === "click") location.href = `${heat.dataset.heat}machines/${machineAt(svg, square)}`;
    else point(heat, svg, square);
  }

  // Output of tasks
  function follow(log) {
    const status = document.querySelector(`[data-log-status="${CSS.escape(log.id)}"]`), fold = log.closest("details");
    let stream = null, last = "";
    const turn = () => {
      if (stream) stream = stream.close();
      if (document.hidden || last === null || (fold && !fold.open)) return;
      stream = new EventSource(log.dataset.log + (last && `&after=${encodeURIComponent(last)}`));
      stream.onmessage = (event) => {
        const below = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
        last = event.lastEventId;
        log.append(JSON.parse(event.data).text.replace(HIDDEN, ""));
        while (log.textContent.length > LOG_CHARACTERS) log.firstChild.remove();
        if (below) log.scrollTop = log.scrollHeight;
      };
      const tell = ({ data }) => status && (status.textContent = JSON.parse(data).detail);
      stream.addEventListener("source", tell);
      stream.addEventListener("gap", ({ data }) => log.append(`[${JSON.parse(data).detail}]\n`));
      stream.addEventListener("reset", () => log.replaceChildren());
      stream.addEventListener("end", (event) => {
        if (JSON.parse(event.data).again) return;
        [last, stream] = [null, stream.close()];
        tell(event);
      });
    };
    document.addEventListener("visibilitychange", turn);
    fold?.addEventListener("toggle", turn);
    turn();
  }

  // A form that was refused before it was read, as after the end of a session: this tab keeps what was entered until the
  // form is there again. Pages in between are those of signing in and of refusals.
  const KEPT = "omega-form", text = (value) => typeof value === "string";
  // Attributes, not properties: a form with a field "action" has that field as its property.
  const isPost = (form) => form.getAttribute("method") === "post", target = (form) => form.getAttribute("action");
  function keepForm({ target: form }) {
    if (!isPost(form) || "between" in document.body.dataset || target(form) === "/logout") return;
    const fields = [...new FormData(form)].filter(([name, value]) => name !== "csrf" && text(value));
    const page = document.body.dataset.page || location.pathname + location.search;
    try {
      sessionStorage.setItem(KEPT, JSON.stringify({ page, action: target(form), fields }));
    } catch {}  // no room: the form is sent all the same
  }

  function restoreForm() {
    const { between, unsent } = document.body.dataset, kept = JSON.parse(sessionStorage.getItem(KEPT) || "null");
    if (kept && unsent !== undefined) sessionStorage.setItem(KEPT, JSON.stringify(Object.assign(kept, { unsent: true })));
    if (between !== undefined) {
      if (!kept?.unsent) return;
      find('input[name="next"]').forEach((field) => (field.value = kept.page));
      find("a[data-back]").forEach((link) => (link.href = kept.page));
      return;
    }
    sessionStorage.removeItem(KEPT);
    if (!kept?.unsent) return;
    const form = find("main form").find((each) => isPost(each) && target(each) === kept.action);
    for (const field of form ? form.elements : []) {
      const values = kept.fields.filter(([name]) => name === field.name).map(([, value]) => value);
      if (/^(checkbox|radio)$/.test(field.type)) field.checked = values.includes(field.value);
      else if (values.length && !/^(hidden|submit|button)$/.test(field.type)) field.value = values[0];
    }
    const said = { className: "message note", textContent: "The form was not sent before. It has what you entered; send it again." };
    document.querySelector("main").prepend(Object.assign(document.createElement("p"), said));
  }

  restoreForm();
  document.addEventListener("submit", keepForm);
  find("[data-log]").forEach(follow);
  find("[data-heat]").forEach((heat) => [heat, ...find("a", heat)].forEach((each, i) => (each.tabIndex = i ? -1 : 0)));
  document.addEventListener("keydown", press);
  document.addEventListener("change", keepSelected);
  keepSelected();
  for (const kind of ["click", "pointermove"]) document.addEventListener(kind, touch);
  if (!url) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : [open(), changed(null)]));
  for (const [kind, turn] of [["pagehide", close], ["pageshow", open]]) window.addEventListener(kind, turn);
  setInterval(grow, 1000);
  open();
})();
