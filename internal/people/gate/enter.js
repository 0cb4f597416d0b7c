"use strict";

// The link's secret is the fragment. It leaves the address bar and the history at once.
const link = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

const message = document.getElementById("message");
const button = document.getElementById("enter");

async function send(body) {
  const answer = await fetch("enter/link", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) {
    throw new Error((await answer.text()).trim());
  }
  return answer.json();
}

function fail(error) {
  button.hidden = true;
  message.textContent = error.message;
}

async function enter(user) {
  button.disabled = true;
  const opened = await send({ link, user });
  localStorage.setItem("muster-key", opened.key);
  location.replace("../");
}

async function start() {
  if (!link) {
    throw new Error("This page needs a link: run `muster console`.");
  }
  const { user } = await send({ link });
  message.textContent = `You are about to sign in as ${user}.`;
  button.hidden = false;
  button.addEventListener("click", () => enter(user).catch(fail));
  button.focus();
}

start().catch(fail);
