#include "report_html.h"

#include "report_parts.h"

static const char style_of_text[] =
    ":root{color-scheme:light dark;--bg:#fafaf9;--card:#fff;--ink:#1c1917;--soft:#57534e;"
    "--line:#e2dfdc;--agent:#1d4ed8;--hold:#c2410c;--short:#7c3aed;--flat:#78716c;--green:#0f766e;"
    "--band:rgba(120,113,108,.22);--good:#15803d;--bad:#b91c1c;--warn:#a16207}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#141312;--card:#1f1d1b;--ink:#f1efee;"
    "--soft:#a8a29e;--line:#3a3633;--agent:#7aa2ff;--hold:#fb923c;--short:#c4a0ff;--flat:#a8a29e;"
    "--green:#2dd4bf;--band:rgba(168,162,158,.22);--good:#4ade80;--bad:#f87171;--warn:#facc15}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:1120px;margin:0 auto;padding:20px 16px 48px}\n"
    "h1{font-size:1.5rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:1.1rem;margin:0 0 10px}header p{margin:0 0 4px;overflow-wrap:anywhere}\n"
    ".soft,.note,figcaption,.why,small{color:var(--soft)}.note,figcaption{font-size:.85rem;"
    "margin:8px 0 0}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:16px;margin:16px 0}\n"
    ".verdict{border-left:6px solid var(--warn)}.verdict.lose{border-left-color:var(--bad)}"
    ".verdict.win{border-left-color:var(--good)}.verdict p{margin:0}.verdict strong{display:block;"
    "font-size:1.15rem;line-height:1.35;margin-bottom:4px}.verdict .warn{color:var(--warn);"
    "margin-top:8px;font-weight:600}\n"
    ".tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:10px}"
    ".tile{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:10px 12px;display:flex;flex-direction:column}.tile span{font-size:.8rem;"
    "color:var(--soft)}.tile b{font-size:1.25rem;font-variant-numeric:tabular-nums}"
    ".tile small{font-size:.75rem;line-height:1.3}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}\n"
    /* a shadow at an edge says that there is more to see */
    ".scroll{overflow-x:auto;background:linear-gradient(to right,var(--card) 40%,transparent) 0 0,"
    "linear-gradient(to left,var(--card) 40%,transparent) 100% 0,linear-gradient(to right,"
    "var(--band),transparent) 0 0,linear-gradient(to left,var(--band),transparent) 100% 0;"
    "background-repeat:no-repeat;background-size:36px 100%,36px 100%,12px 100%,12px 100%;"
    "background-attachment:local,local,scroll,scroll}.scroll th:first-child{white-space:nowrap}"
    "figure+.scroll{margin-top:14px}.note+.scroll{margin-top:14px}table{border-"
    "collapse:collapse;width:100%;font-size:.9rem;"
    "font-variant-numeric:tabular-nums}th,td{padding:5px 8px;text-align:right;"
    "border-bottom:1px solid var(--line)}th:first-child{text-align:left}tbody th{"
    "font-weight:500}thead th{color:var(--soft);font-weight:500;font-size:.8rem;"
    "vertical-align:bottom}td{white-space:nowrap}td.left{text-align:left;white-space:normal;"
    "color:var(--soft)}tr.mark th,tr.mark td{font-weight:700}\n"
    ".list th{text-align:left;white-space:nowrap}.list td.why{text-align:left;white-space:normal;"
    "font-size:.82rem;width:58%}.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 24px;"
    "align-items:start}\n"
    ".heat{table-layout:fixed;min-width:300px}.heat th:first-child{width:5.6em}.heat th{"
    "text-align:center;padding:4px 2px;font-size:.78rem}.heat tbody th{text-align:left}"
    ".heat td{text-align:center;padding:9px 1px;border:1px solid var(--line);font-size:.8rem}\n";

static const char style_of_charts[] =
    "figure{margin:0}.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:.82rem;"
    "margin-bottom:8px}.key{display:inline-block;width:14px;height:3px;vertical-align:middle;"
    "margin-right:6px;background:var(--ink);border-radius:2px}.key.up,.key.down{width:8px;"
    "height:8px;border-radius:50%;margin-right:2px}\n"
    ".plot{position:relative;height:230px;margin-left:54px}.plot.tall{height:320px}.plot svg{"
    "position:absolute;inset:0;width:100%;height:100%;overflow:hidden}.yl{position:absolute;"
    "right:100%;transform:translateY(-50%);padding-right:7px;font-size:.72rem;color:var(--soft);"
    "white-space:nowrap;font-variant-numeric:tabular-nums}.xls{position:relative;height:18px;"
    "margin:4px 0 0 54px}.xl{position:absolute;transform:translateX(-50%);font-size:.72rem;"
    "color:var(--soft);white-space:nowrap}.x0{transform:none}.x4{transform:translateX(-100%)}\n"
    "svg path{vector-effect:non-scaling-stroke}.line{fill:none;stroke-width:1.4;"
    "stroke-linejoin:round;stroke:var(--ink)}.grid{stroke:var(--line);stroke-width:1}.zero{"
    "stroke:var(--soft);stroke-width:1}.band,.bandkey{fill:var(--band);background:var(--band);"
    "stroke:none}.bandkey{height:10px}.dashed{stroke-dasharray:5 4}.dot{stroke-linecap:round;"
    "stroke-width:6}.line.total{stroke-width:2}.line.agent{stroke-width:1.7}.line.price{stroke-"
    "width:1;opacity:.75}\n"
    ".agent{stroke:var(--agent)}.hold{stroke:var(--hold)}.short{stroke:var(--short)}"
    ".flat{stroke:var(--flat)}.green{stroke:var(--green)}.price{stroke:var(--soft)}"
    ".total{stroke:var(--ink)}.up{stroke:var(--agent)}.down{stroke:var(--hold)}\n"
    ".key.agent,.key.up{background:var(--agent)}.key.hold,.key.down{background:var(--hold)}"
    ".key.short{background:var(--short)}.key.flat{background:var(--flat)}"
    ".key.green{background:var(--green)}.key.price{background:var(--soft)}"
    ".key.total{background:var(--ink)}.area{stroke:none}.area.agent{stroke:none;fill:var(--agent);"
    "fill-opacity:.15}\n"
    ".plot.folded{margin-top:20px}.when i,.seeds i{font-style:normal;white-space:nowrap}"
    ".when td,.seeds td{white-space:normal}header span{white-space:nowrap}\n"
    ".limit{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}.fl{position:absolute;top:-15px;"
    "font-size:.68rem;line-height:1.2;color:var(--soft);white-space:nowrap;"
    "z-index:1}h3{font-size:.95rem;margin:18px 0 6px}details{margin:10px 0}summary{cursor:pointer;"
    "font-size:.85rem;color:var(--soft)}td small{display:block;font-size:.75rem}td.chosen{"
    "font-weight:700}td.chosen small{font-weight:400}\n"
    "ul{margin:0;padding-left:20px}li{margin:3px 0}code{font-size:.9em}\n"
    "@media(max-width:860px){.tiles{grid-template-columns:repeat(3,1fr)}"
    ".pair{grid-template-columns:1fr}}\n"
    "@media(max-width:520px){main{padding:14px 8px 32px}section{padding:12px 10px}"
    ".tiles{grid-template-columns:repeat(2,1fr)}.x1,.x3{display:none}.plot,.xls{margin-left:46px}"
    ".plot.tall{height:260px}.plot{height:190px}.scroll table{font-size:.77rem}.scroll th,"
    ".scroll td{padding:5px 4px}.scroll thead th{font-size:.72rem}.first th:first-child,"
    ".wrap th:first-child{white-space:normal}.scroll .heat td{font-size:.7rem;padding:8px 0}"
    ".scroll .heat th{font-size:.66rem}.heat th:first-child{width:5.4em}"
    ".rest{display:none}td small{font-size:.66rem}"
    ".list tr{display:grid;grid-template-columns:1fr auto;border-bottom:1px solid var(--line);"
    "padding:4px 0}.list th,.list td{border:0;padding:1px 2px}.list td.why{grid-column:1/3;"
    "width:auto;padding-top:0}}\n"
    "@media print{section{break-inside:avoid}}\n";

static void begin_page(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
            "<title>%s</title>\n<style>\n%s%s</style></head>\n<body><main>\n",
            r->n_folds > 0                ? "Walk-forward report"
            : r->split == DQN_SPLIT_TRAIN ? "Trading report: train split"
            : r->split == DQN_SPLIT_TEST  ? "Trading report: test split"
                                          : "Trading report: validation split",
            style_of_text, style_of_charts);
}

static enum dqn_status charted(const char *title, const struct dqn_trading_report *r,
                               enum dqn_status (*chart)(const struct dqn_trading_report *, FILE *),
                               void (*more)(const struct dqn_trading_report *, FILE *), FILE *out) {
    fprintf(out, "<section><h2>%s</h2>\n", title);
    DQN_TRY(chart(r, out));
    if (more != NULL) {
        more(r, out);
    }
    fprintf(out, "</section>\n");
    return DQN_OK;
}

static void end_page(const struct dqn_trading_report *r, FILE *out) {
    fprintf(out, "<p class=\"note\">Made by dqn-eval %s from ", DQN_VERSION);
    dqn_html_text(r->subject[0] != '\0' ? r->subject : "a policy in memory", out);
    fprintf(out, ". The same figures are in report.json, the curves in equity.csv, and each is "
                 "defined in docs/report.md. Past results, simulated ones above all, promise "
                 "nothing.</p>\n</main></body></html>\n");
}

enum dqn_status dqn_report_html(const struct dqn_trading_report *r, FILE *out) {
    begin_page(r, out);
    dqn_page_top(r, out);
    dqn_page_verdict(r, out);
    DQN_TRY(charted("Equity", r, dqn_page_equity_chart, NULL, out));
    dqn_page_folds(r, out);
    dqn_page_comparison(r, out);
    DQN_TRY(charted("Drawdown", r, dqn_page_drawdown_chart, NULL, out));
    dqn_page_confidence(r, out);
    dqn_page_figures(r, out);
    DQN_TRY(charted("Price and trades", r, dqn_page_price_chart, NULL, out));
    dqn_page_trades(r, out);
    DQN_TRY(charted("Exposure", r, dqn_page_exposure_chart, NULL, out));
    dqn_page_actions(r, out);
    dqn_page_orders(r, out);
    DQN_TRY(charted("Costs", r, dqn_page_cost_chart, dqn_page_costs, out));
    dqn_page_sensitivity(r, out);
    dqn_page_optimum(r, out);
    dqn_page_checks(r, out);
    end_page(r, out);
    return DQN_OK;
}
