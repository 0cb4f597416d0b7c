"use strict";

// The link's secret is the fragment. It leaves the address bar and the history at once.
const link = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
// Another link in the same tab changes the fragment only.
addEventListener("hashchange", () => location.reload());

const chinese = (navigator.languages || []).find((l) => /^(zh|en)\b/i.test(l))?.toLowerCase().startsWith("zh");
const words = chinese
  ? {
      title: "Muster：登录",
      enter: "登录",
      question: (name) => `您将以 ${name} 的身份登录。`,
      lacking: "此页面需要一个链接：请运行 `muster console`。",
      refused: "链接已被使用或已过期：请重新登录。",
    }
  : {
      title: "Muster: sign in",
      enter: "Sign in",
      question: (name) => `You are about to sign in as ${name}.`,
      lacking: "This page needs a link: run `muster console`.",
      refused: "",
    };

const message = document.getElementById("message");
const button = document.getElementById("enter");

async function send(body) {
  const answer = await fetch("enter/link", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) {
    const text = (await answer.text()).trim();
    throw new Error((answer.status === 401 && words.refused) || text);
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
  document.documentElement.lang = chinese ? "zh" : "en";
  document.title = words.title;
  button.textContent = words.enter;
  if (!link) {
    throw new Error(words.lacking);
  }
  const { user, name } = await send({ link });
  message.textContent = words.question(name && name !== user ? `${name} (${user})` : user);
  button.hidden = false;
  button.addEventListener("click", () => enter(user).catch(fail));
  button.focus();
}

start().catch(fail);
