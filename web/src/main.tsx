import { render } from "preact";
import { setDeployment } from "./api/http";
import { keptTheme, takeKeyFromAddress } from "./api/storage";
import type { Deployment } from "./api/types";
import { App, Unreachable } from "./app";
import "./style/tokens.css";
import "./style/base.css";
import "./style/ui.css";

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  const theme = keptTheme();
  if (theme) document.documentElement.dataset.theme = theme;
  takeKeyFromAddress();
  // Pasted into the address of a page that is open, it loads nothing: the page begins anew with it.
  addEventListener("hashchange", () => {
    if (takeKeyFromAddress()) location.reload();
  });
  try {
    const response = await fetch("/pages.json", { cache: "no-cache" });
    if (!response.ok) throw new Error(`${response.status}`);
    const deployment = (await response.json()) as Deployment;
    setDeployment(deployment);
    render(<App deployment={deployment} />, root);
  } catch {
    render(<Unreachable />, root);
  }
}

void start();
