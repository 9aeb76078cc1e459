// The drawing of the fabric: what breaks is marked; links, nodes and planes can be chosen by mouse and keys.
const NS = "http://www.w3.org/2000/svg";

const STATE_WORDS = { up: "up", down: "down", impaired: "has a fault" };
const SIGNS = { down: "✕", impaired: "!" };

const signOf = ({ state, outages }) => (outages ? `${SIGNS[state]} ${outages}×` : SIGNS[state]);

export function svgElement(name, attributes = {}, text = "") {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

export class Fabric {
  constructor(place, onChoose) {
    this.place = place;
    this.onChoose = onChoose;
    this.links = new Map();
    this.nodes = new Map();
    this.planes = new Map();
  }

  draw(text) {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    this.svg = document.importNode(parsed, true);
    this.svg.removeAttribute("role");
    this.svg.querySelector("text.title")?.remove(); // the page has it as its heading
    const box = this.svg.viewBox.baseVal;
    this.svg.setAttribute("viewBox", `0 36 ${box.width} ${box.height - 36}`);
    this.place.replaceChildren(this.svg);
    this.links = this.#collect("path.link", (path) => path.dataset.name, "link");
    for (const path of this.links.values()) path.removeAttribute("stroke-dasharray");
    this.nodes = this.#collect("g.node", (node) => node.dataset.name, "node");
    this.planes = this.#collect("rect.plane", (rect) => rect.dataset.plane, "plane");
    this.signs = svgElement("g");
    this.svg.append(this.signs);
  }

  #collect(selector, nameOf, kind) {
    return new Map([...this.svg.querySelectorAll(selector)].map((element) => {
      const name = nameOf(element);
      this.#makeButton(element, kind === "node" ? name : `${kind} ${name}`, () => this.onChoose(kind, name));
      return [name, element];
    }));
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

  show({ links, broken_nodes: nodes, planes }, describe) {
    const signs = [];
    for (const link of links) {
      const path = this.links.get(link.name);
      if (!path) continue;
      path.dataset.state = link.state;
      path.classList.toggle("flapping", link.outages > 0);
      path.dataset.load = link.load_ratio < 0.01 ? 0 : Math.min(4, 1 + Math.floor(link.load_ratio * 4));
      path.querySelector("title").textContent = describe(link);
      path.setAttribute("aria-label", `link ${link.name}, ${STATE_WORDS[link.state]}`);
      if (link.state in SIGNS) {
        const middle = path.getPointAtLength(path.getTotalLength() * 0.36);
        signs.push(svgElement("text", { class: `sign ${link.state}`, x: middle.x, y: middle.y + 5 }, signOf(link)));
      }
    }
    const broken = new Map(nodes.map((node) => [node.name, node]));
    for (const [name, element] of this.nodes) {
      const node = broken.get(name), state = node?.state ?? "up";
      element.dataset.state = state;
      element.setAttribute("aria-label", node ? `${name}, ${STATE_WORDS[state]}` : name);
      element.querySelector("title").textContent = node ? `${name}: faults ${node.faults.join(", ")}` : name;
      if (!node) continue;
      const { x, y, width } = element.querySelector("rect").getBBox();
      signs.push(svgElement("text", { class: `sign ${state}`, x: x + width - 1, y: y + 3 }, SIGNS[state]));
    }
    for (const { plane, state } of planes) {
      const rect = this.planes.get(String(plane));
      if (rect) rect.dataset.state = state;
    }
    this.signs.replaceChildren(...signs);
  }

  choose(kind, name) {
    for (const [kindOf, elements] of [["link", this.links], ["node", this.nodes], ["plane", this.planes]]) {
      for (const [each, element] of elements) element.classList.toggle("chosen", kindOf === kind && each === name);
    }
  }

  pick(names) {
    for (const [name, node] of this.nodes) node.classList.toggle("picked", names.includes(name));
  }

  trace(names) {
    this.svg.classList.toggle("tracing", names.length > 0);
    for (const [each, path] of this.links) path.classList.toggle("traced", names.includes(each));
  }
}
