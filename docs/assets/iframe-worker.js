/* Search from file://. Browsers start no worker from a file, so that the script runs in a hidden frame instead.
   A frame that is made by this page shares its origin; the worker's script sees the frame's window as its own. */
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = null;
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(new URL(each, url).href)), Promise.resolve());
      const load = (each) =>
        new Promise((loaded, failed) => {
          const script = inside.document.createElement("script");
          script.src = each;
          script.onload = loaded;
          script.onerror = failed;
          inside.document.body.appendChild(script);
        });
      load(String(url)).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.hand(data));
      });
    }
    hand(data) {
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.hand(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
