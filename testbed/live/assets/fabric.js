// The drawing of the fabric: links take their state and load, links and hosts can be chosen by mouse and keys.
import { svgElement } from "./plot.js";

const STATE_WORDS = { up: "up", down: "down", impaired: "impaired by a fault" };
const SIGNS = { down: "✕", impaired: "!" };

export class Fabric {
  constructor(place, onLink, onHost) {
    this.place = place;
    this.onLink = onLink;
    this.onHost = onHost;
    this.links = new Map();
  }

  draw(text) {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    this.svg = document.importNode(parsed, true);
    this.svg.removeAttribute("role");
    this.svg.querySelector("text.title")?.remove(); // the page has it as its heading
    const box = this.svg.viewBox.baseVal;
    this.svg.setAttribute("viewBox", `0 36 ${box.width} ${box.height - 36}`);
    this.place.replaceChildren(this.svg);
    this.links = new Map();
    for (const path of this.svg.querySelectorAll("path.link")) {
      const name = path.dataset.name;
      this.links.set(name, path);
      path.removeAttribute("stroke-dasharray");
      this.#makeButton(path, `link ${name}`, () => this.onLink(name));
    }
    for (const node of this.svg.querySelectorAll("g.node.host")) {
      this.#makeButton(node, `host ${node.dataset.name}: show paths`, () => this.onHost(node.dataset.name));
    }
    this.signs = svgElement("g");
    this.svg.append(this.signs);
  }

  #makeButton(element, label, act) {
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", label);
    element.addEventListener("click", act);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
    });
  }

  show(links, describe) {
    const signs = [];
    for (const link of links) {
      const path = this.links.get(link.name);
      if (!path) continue;
      path.dataset.state = link.state;
      path.dataset.load = link.load_ratio < 0.01 ? 0 : Math.min(4, 1 + Math.floor(link.load_ratio * 4));
      path.querySelector("title").textContent = describe(link);
      path.setAttribute("aria-label", `link ${link.name}, ${STATE_WORDS[link.state]}`);
      if (link.state in SIGNS) {
        const middle = path.getPointAtLength(path.getTotalLength() * 0.36);
        signs.push(svgElement("text",
          { class: `sign ${link.state}`, x: middle.x, y: middle.y + 5 }, SIGNS[link.state]));
      }
    }
    this.signs.replaceChildren(...signs);
  }

  choose(name) {
    for (const [each, path] of this.links) path.classList.toggle("chosen", each === name);
  }

  pick(names) {
    for (const node of this.svg.querySelectorAll("g.node.host")) {
      node.classList.toggle("picked", names.includes(node.dataset.name));
    }
  }

  trace(names) {
    this.svg.classList.toggle("tracing", names.length > 0);
    for (const [each, path] of this.links) path.classList.toggle("traced", names.includes(each));
  }
}
