import "uplot/dist/uPlot.min.css";
import "./styles/colours.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/controls.css";
import "./styles/content.css";
import "./styles/tables.css";
import "./styles/charts.css";
import "./styles/details.css";
import "./styles/rules.css";
import "./styles/cards.css";

import { render } from "preact";

import { App } from "./App.tsx";
import { startTheme } from "./state/theme.ts";

startTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
