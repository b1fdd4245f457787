import type uPlot from "uplot";

import type { Mark } from "../api/types.ts";

/** Returns whether something happened to the node, rather than being changed by somebody. */
export function isSerious(mark: Mark): boolean {
  return mark.kind === "degraded" || mark.kind === "restart";
}

/** Draws what changed as vertical lines, each with a small flag: a restart and a degradation in the colour of errors. */
export function marksPlugin(marks: () => Mark[], colour: (name: string) => string): uPlot.Plugin {
  const draw = (plot: uPlot) => {
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio;
    ctx.save();
    for (const mark of marks()) {
      const x = Math.round(plot.valToPos(mark.at_s, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = colour(isSerious(mark) ? "error" : "accent");
      ctx.lineWidth = scale;
      ctx.setLineDash([2 * scale, 3 * scale]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x + 7 * scale, bbox.top + 4 * scale);
      ctx.lineTo(x, bbox.top + 8 * scale);
      ctx.fill();
    }
    ctx.restore();
  };
  return { hooks: { draw: [draw] } };
}
