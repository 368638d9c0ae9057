// Search of a page that is opened as a file. Browsers start no worker there, so this class runs the
// script of the worker in a hidden frame. It has the part of the interface of Worker that the search
// uses. (The theme looks for the name of this file, and would load such a script from another host.)
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow;
    inner.document.open();
    inner.document.write("<body></body>");
    inner.document.close();
    // The script answers by calling the global function postMessage.
    inner.postMessage = (data) => {
      this.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
    };
    const script = inner.document.createElement("script");
    script.src = url;
    this.ready = new Promise((resolve) => {
      script.onload = resolve;
    });
    inner.document.body.append(script);
  }

  postMessage(data) {
    const message = new MessageEvent("message", { data: structuredClone(data) });
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(message));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.Worker = FrameWorker;
}
