import { render } from "preact";

import { takeToken } from "./api";
import { stayConnected } from "./live";
import { askMeta } from "./meta";
import { listenToKeys } from "./shell/keys";
import { Shell } from "./shell/shell";
import { watchFleet } from "./shell/watch";
import "./styles/index.css";

takeToken();
void askMeta();
void stayConnected();
watchFleet();
listenToKeys();
const room = document.getElementById("room");
if (room) render(<Shell />, room);
