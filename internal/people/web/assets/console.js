"use strict";

// Texts of others, such as names of jobs, become text nodes and never HTML.

const at = (id) => document.getElementById(id);
const key = localStorage.getItem("muster-key");
const times = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "short" });

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { "X-Muster-Key": key, ...options.headers } });
  if (!answer.ok) {
    throw new Refused(answer.status, (await answer.text()).trim());
  }
  return answer;
}

function cell(row, text, kind = "") {
  const made = row.insertCell();
  made.textContent = text;
  made.className = kind;
  return made;
}

const time = (text) => (text ? times.format(new Date(text)) : "");

function holders(gpu) {
  const all = [gpu.holder, ...(gpu.sharers || [])].filter(Boolean);
  return all.map((h) => `${h.namespace}/${h.job || h.pod || h.claim}${h.done ? ` (${h.done})` : ""}`);
}

function stateOf(node, gpu) {
  if (!node.ready) return ["notReady", "bad"];
  if (gpu.unhealthy) return ["unhealthy", "bad"];
  if (gpu.holder) return ["held", ""];
  if (gpu.sharers && gpu.sharers.length > 0) return ["shared", ""];
  if (gpu.foreign && gpu.foreign.length > 0) return ["foreign", "bad"];
  return ["free", "faint"];
}

function showGPUs(report) {
  const body = document.createElement("tbody");
  body.id = "gpus";
  let all = 0;
  let free = 0;
  for (const node of report.nodes) {
    for (const gpu of node.gpus || []) {
      const [state, kind] = stateOf(node, gpu);
      const others = (gpu.foreign || []).map((p) => `${p.user || ""} ${p.command || p.pid}`.trim());
      const row = body.insertRow();
      cell(row, node.name);
      cell(row, gpu.index, "number");
      cell(row, gpu.simulated ? `${gpu.model} (${words.simulated})` : gpu.model);
      cell(row, words[state], kind).title = gpu.unhealthy || "";
      cell(row, [...holders(gpu), ...others].join(", "));
      cell(row, time((gpu.holder || (gpu.sharers || [])[0] || {}).since));
      all += 1;
      free += state === "free" ? 1 : 0;
    }
  }
  at("gpus").replaceWith(body);
  at("gpus-state").textContent = all === 0 ? words.noGPUs : words.summary(free, all);
}

async function showSessions() {
  const list = await (await call("api/sessions")).json();
  const body = document.createElement("tbody");
  body.id = "sessions";
  for (const one of list) {
    const row = body.insertRow();
    const name = one.name || one.id;
    const over = new Date(one.expires) <= new Date();
    cell(row, words[one.kind]);
    cell(row, one.current ? `${name} (${words.this})` : name);
    cell(row, one.origin || (one.scopes || []).join(", "));
    cell(row, time(one.seen));
    cell(row, over ? words.expired : time(one.expires), over ? "faint" : "");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words.revoke;
    button.setAttribute("aria-label", words.revokeOf(`${words[one.kind]} ${name} ${one.id}`));
    button.dataset.id = one.id;
    button.addEventListener("click", () => revoke(button, one, name));
    cell(row, "").append(button);
  }
  at("sessions").replaceWith(body);
}

async function revoke(button, one, name) {
  button.disabled = true;
  try {
    await call(`api/sessions/${one.id}`, { method: "DELETE" });
    if (one.current) {
      over("left");
      return;
    }
    await showSessions();
    at("sessions-state").textContent = words.revoked(name);
  } catch (error) {
    button.disabled = false;
    report(error, "sessions-state");
  }
}

// over shows that this browser has no session.
function over(why) {
  const provider = document.body.dataset.signin === "provider";
  at("signin").hidden = !provider;
  localStorage.removeItem("muster-key");
  at("content").hidden = true;
  at("leave").hidden = true;
  at("who").textContent = "";
  at("gpus").replaceChildren();
  at("sessions").replaceChildren();
  at("message").textContent = words[provider ? `${why}At` : why];
  document.body.dataset.state = "out";
}

function report(error, place) {
  if (error.status === 401) {
    over("ended");
  } else {
    at(place).textContent = error.message;
  }
}

// watch shows each line of the stream, until it ends; then it asks whether the session has ended.
async function watch() {
  const answer = await call("api/watch");
  at("message").textContent = "";
  document.body.dataset.state = "watching";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) {
      const news = JSON.parse(line);
      if (news.gpus) showGPUs(news.gpus);
      else at("gpus-state").textContent = news.trouble;
    }
  }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function follow() {
  while (document.body.dataset.state !== "out") {
    try {
      await watch();
      await call("api/me");
    } catch (error) {
      if (error.status === 401) {
        if (document.body.dataset.state !== "out") over("ended");
        return;
      }
      at("message").textContent = error.status ? error.message : words.away;
    }
    await pause(2000);
  }
}

async function leave() {
  at("leave").disabled = true;
  try {
    await call(".muster/leave", { method: "POST" });
    over("left");
  } catch (error) {
    at("leave").disabled = false;
    report(error, "message");
  }
}

async function start() {
  at("leave").addEventListener("click", leave);
  if (!key) {
    over("signIn");
    return;
  }
  try {
    const me = await (await call("api/me")).json();
    const name = me.name && me.name !== me.user ? `${me.name} (${me.user})` : me.user;
    at("who").textContent = words.who(name, me.api && me.api.user);
    at("message").textContent = me.trouble || me.readOnly || "";
    at("content").hidden = false;
    at("leave").hidden = false;
    await showSessions();
  } catch (error) {
    if (error.status === 401 || error.status === 403) over("signIn");
    else at("message").textContent = error.message;
    if (error.status) return;
  }
  await follow();
}

start();
