/* Search without a server: browsers refuse workers on pages that are opened from the disk, so the
   search runs in a hidden frame instead. Only there; elsewhere this does nothing. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame.contentWindow;
      this.frame.document.open();
      this.frame.document.write("<!doctype html><html><body></body></html>");
      this.frame.document.close();
      const load = (src) =>
        new Promise((done, failed) => {
          const script = this.frame.document.createElement("script");
          script.src = src;
          script.onload = done;
          script.onerror = failed;
          this.frame.document.body.appendChild(script);
        });
      this.frame.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.frame.importScripts = (...urls) =>
        urls.reduce((before, src) => before.then(() => load(src)), Promise.resolve());
      this.ready = load(url);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
