#!/usr/bin/env python3
"""Checks a report folder of dqn-eval --report: computes its figures again from equity.csv and
trades.csv, those of folds as well, compares the page with report.json, and, where they are installed
(pip install quantstats empyrical-reloaded), compares with these libraries wherever definitions agree
(docs/report.md). Where Chromium is installed the page is rendered 390 and 1280 pixels wide: nothing may
be wider than the page, be cut at its edges, or lie over another label of a chart.

    scripts/check_report.py DIR

Prints one line a figure; exits with 1 when one is off by more than 1e-9."""
import csv
import datetime
import html.parser
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

TOLERANCE = 1e-9
failures = []


def compare(name, ours, theirs, tolerance=TOLERANCE):
    if ours is None or theirs is None:
        off, good = float("nan"), ours is None and theirs is None
    else:
        off = abs(ours - theirs) / max(1.0, abs(theirs))
        good = off <= tolerance
    print(f"{'ok ' if good else 'OFF'} {name:42} {ours} {theirs} {off:.1e}")
    if not good:
        failures.append(name)


def mean(x):
    return math.fsum(x) / len(x)


def deviation(x):
    m = mean(x)
    return math.sqrt(math.fsum((v - m) ** 2 for v in x) / (len(x) - 1))


def sharpe(x, a_year, risk_free):
    if len(x) < 30 or deviation(x) <= 1e-10 * abs(mean(x)) + 1e-15:
        return None
    return (mean(x) - risk_free / a_year) / deviation(x) * math.sqrt(a_year)


def returns(equity):
    return [after / before - 1 for before, after in zip(equity, equity[1:])]


def largest_drawdown(equity):
    peak, worst = equity[0], 0.0
    for value in equity:
        peak = max(peak, value)
        worst = max(worst, 1 - value / peak)
    return worst


def daily(rows, equity):
    """Equity at the start and at the last bar of each UTC day."""
    days = [row["time"][:10] for row in rows]
    kept = [equity[0]]
    for i in range(1, len(rows)):
        if i + 1 == len(rows) or days[i] != days[i + 1]:
            kept.append(equity[i])
    return kept


def check_by_hand(report, rows, column, figures):
    rows = [row for row in rows if row[column]]  # an agent has no equity after its ruin
    equity = [float(row[column]) for row in rows]
    a_year, risk_free = report["bars_per_year"], report["risk_free"]
    if min(equity[:-1]) <= 0:
        print(f"    {column}: equity passes zero, ratios are not compared")
        return equity
    x, days = returns(equity), daily(rows, equity)
    below = math.sqrt(mean([min(v - risk_free / a_year, 0) ** 2 for v in x]))
    years = len(x) / a_year
    cagr = (equity[-1] / equity[0]) ** (1 / years) - 1 if years >= 0.25 else None
    drawdown = largest_drawdown(equity)
    enough = len(x) >= 30
    compare(f"{column}: total return", figures["total_return"], equity[-1] / equity[0] - 1)
    compare(f"{column}: CAGR", figures["cagr"], cagr)
    compare(f"{column}: volatility", figures["volatility"],
            deviation(x) * math.sqrt(a_year) if enough else None)
    compare(f"{column}: Sharpe", figures["sharpe"], sharpe(x, a_year, risk_free))
    compare(f"{column}: Sharpe daily", figures["sharpe_daily"],
            sharpe(returns(days), (len(days) - 1) * a_year / len(x), risk_free))
    compare(f"{column}: Sortino", figures["sortino"],
            (mean(x) - risk_free / a_year) / below * math.sqrt(a_year)
            if enough and below > 0 else None)
    compare(f"{column}: largest drawdown", figures["max_drawdown"], drawdown)
    compare(f"{column}: Calmar", figures["calmar"],
            cagr / drawdown if cagr is not None and drawdown > 0 else None)
    return equity


def check_relation(report, agent, market):
    if min(agent + market) <= 0 or len(agent) < 31 or len(agent) != len(market):
        return
    y = [math.log(1 + v) for v in returns(agent)]
    x = [math.log(1 + v) for v in returns(market)]
    mx, my, rate = mean(x), mean(y), report["risk_free"] / report["bars_per_year"]
    xx = math.fsum((v - mx) ** 2 for v in x)
    yy = math.fsum((v - my) ** 2 for v in y)
    xy = math.fsum((a - mx) * (b - my) for a, b in zip(x, y))
    if xx == 0 or yy == 0:
        return
    ours = report["confidence"]
    compare("beta", ours["beta"], xy / xx)
    compare("alpha", ours["alpha"], (my - rate - xy / xx * (mx - rate)) * report["bars_per_year"])
    compare("correlation", ours["correlation"], xy / math.sqrt(xx * yy))
    x = returns(agent)
    m = mean(x)
    m2, m3, m4 = (mean([(v - m) ** k for v in x]) for k in (2, 3, 4))
    compare("skewness", ours["skewness"], m3 / m2 ** 1.5)
    compare("kurtosis", ours["kurtosis"], m4 / m2 ** 2)


def check_trades(report, folder):
    with open(folder / "trades.csv", newline="") as file:
        trades = [t for t in csv.DictReader(file) if t["ended_by"] != "still open"]
    pnl = [float(t["pnl"]) for t in trades]
    wins, losses = [p for p in pnl if p > 0], [-p for p in pnl if p < 0]
    ours = report["trades"]
    compare("trades", ours["closed"], len(pnl))
    compare("hit rate", ours["hit_rate"], len(wins) / len(pnl) if pnl else None)
    compare("profit factor", ours["profit_factor"], sum(wins) / sum(losses) if losses else None)
    compare("payoff", ours["payoff"], mean(wins) / mean(losses) if wins and losses else None)
    compare("mean trade", ours["mean_pnl"], mean(pnl) if pnl else None)
    compare("mean hold", ours["mean_bars"], mean([int(t["bars"]) for t in trades]) if pnl else None)


class Page(html.parser.HTMLParser):
    """Texts of the elements that name their figure."""

    def __init__(self):
        super().__init__()
        self.key, self.found = None, []

    def handle_starttag(self, tag, attributes):
        self.key = dict(attributes).get("data-key", self.key)

    def handle_data(self, data):
        if self.key is not None:
            self.found.append((self.key, data))
        self.key = None


def check_folds(report, rows):
    """The folds' figures from the fold column, their chain, and the seed that stands for each."""
    folds = report["folds"]
    if not folds or report["ruined"] or min(float(row["equity"]) for row in rows) <= 0:
        return
    a_year, risk_free = report["bars_per_year"], report["risk_free"]
    chained, costs, step = 1.0, 0.0, 1
    for fold in folds:
        name, steps, figures = f"fold {fold['fold']}", fold["steps"], fold["figures"]
        if any(int(row["fold"]) != fold["fold"] for row in rows[step:step + steps]):
            failures.append(f"{name}: its rows in equity.csv")
        equity = [float(row["equity"]) for row in rows[step - 1:step + steps]]
        market = [float(row["buy_and_hold"]) for row in rows[step - 1:step + steps]]
        step += steps
        x = returns(equity)
        compare(f"{name}: total return", figures["total_return"], equity[-1] / equity[0] - 1)
        compare(f"{name}: buy and hold", fold["buy_hold_return"], market[-1] / market[0] - 1)
        compare(f"{name}: Sharpe", figures["sharpe"], sharpe(x, a_year, risk_free))
        compare(f"{name}: largest drawdown", figures["max_drawdown"], largest_drawdown(equity))
        seeds = sorted(seed["validation_return"] for seed in fold["seeds"])
        chosen = [seed for seed in fold["seeds"] if seed["chosen"]]
        compare(f"{name}: one seed is chosen", len(chosen), 1)
        compare(f"{name}: seed", fold["seed"], chosen[0]["seed"])
        compare(f"{name}: it is the median", fold["validation_return"],
                seeds[(len(seeds) - 1) // 2])
        if not report["market"]["data_changed"]:
            # the walk-forward's own pass, one that was made when the fold was tested
            compare(f"{name}: as tested then", figures["total_return"], chosen[0]["test_return"])
        chained *= 1 + figures["total_return"]
        costs += figures["costs"]
    compare("folds: rows", len(rows), step)
    compare("folds: chained", report["agent"]["total_return"], chained - 1)
    compare("folds: costs", report["agent"]["costs"], costs)


def agrees(shown, value):
    """Whether a text on the page is a value of report.json, rounded to the digits shown."""
    if isinstance(value, str):
        return value.replace("T", " ").startswith(shown)
    number = shown.replace("\u2212", "-").replace(",", "").replace("\u202f%", "")
    if value is None or number == "n/a":
        return value is None and number == "n/a"
    scale = 100 if shown.endswith("%") else 1
    mantissa, _, exponent = number.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    # half of the last digit shown, and a hair for ties
    return abs(float(number) - scale * value) <= 0.5000001 * 10.0 ** -digits


def find(report, key):
    value = report
    for part in key.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def check_page(report, folder):
    page = Page()
    text = (folder / "report.html").read_text(encoding="utf-8")
    page.feed(text)
    wrong = [(key, shown) for key, shown in page.found if not agrees(shown, find(report, key))]
    for key, shown in wrong:
        print(f"OFF page: {key} shows {shown}, report.json has {find(report, key)}")
    print(f"{'OFF' if wrong else 'ok '} page: {len(page.found)} figures against report.json")
    if wrong or len(page.found) < 60:
        failures.append("page")
    wanted = {f"folds.{i}.{member}" for i in range(len(report["folds"])) for member in (
        "fold", "seed", "validation_return", "figures.total_return", "buy_hold_return",
        "figures.sharpe", "figures.max_drawdown", "figures.turnover", "figures.costs",
        "train.first_time", "train.last_time", "validation.first_time", "validation.last_time",
        "test.first_time", "test.last_time")}
    missing = wanted - {key for key, _ in page.found}
    if missing:
        failures.append(f"the page lacks {', '.join(sorted(missing))}")
    for outside in ("http:", "https:", "<script", "url("):
        if outside in text:
            failures.append(f"page has {outside}")
            print(f"OFF page: contains {outside}")


# Measures the page in a frame of each width and writes what is wrong, and all data-key texts, into the
# frame's parent.
MEASURE = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<script>
const found = {}, widths = [390, 1280];
let left = widths.length;
function measure(frame, width) {
  const doc = frame.contentDocument, wrong = [];
  if (doc.documentElement.scrollWidth > width) {
    wrong.push(`the page is ${doc.documentElement.scrollWidth} wide`);
  }
  for (const e of doc.querySelectorAll("h1,h2,p,figure,.tile,.tile *,.yl,.xl,.fl,.legend span")) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.left < -0.5 || r.right > width + 0.5)) {
      wrong.push(`cut at the edge: ${e.textContent.slice(0, 40)}`);
    }
  }
  for (const figure of doc.querySelectorAll("figure")) {
    const labels = [...figure.querySelectorAll(".yl,.xl,.fl,.legend span")]
      .map(e => [e, e.getBoundingClientRect()]).filter(([e, r]) => r.width > 0);
    labels.forEach(([a, p], i) => labels.slice(i + 1).forEach(([b, q]) => {
      if (!a.contains(b) && p.left < q.right - 1 && q.left < p.right - 1 &&
          p.top < q.bottom - 3 && q.top < p.bottom - 3) {
        wrong.push(`labels overlap: ${a.textContent} and ${b.textContent}`);
      }
    }));
  }
  const figures = [...doc.querySelectorAll("[data-key]")].map(e => [e.dataset.key, e.textContent]);
  found[width] = {wrong, figures, charts: doc.querySelectorAll("svg").length};
}
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border:0;width:${width}px;height:900px`;
  frame.onload = () => {
    measure(frame, width);
    if (--left === 0) {
      document.body.innerHTML = "";
      document.body.textContent = "RESULT" + encodeURIComponent(JSON.stringify(found)) + "END";
    }
  };
  frame.src = "PAGE";
  document.body.append(frame);
}
</script>"""


def render(folder):
    """What Chromium sees, by width; None where it is not installed or does not start."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return None
    with tempfile.TemporaryDirectory() as work:
        frame = pathlib.Path(work) / "frame.html"
        page = (folder / "report.html").resolve().as_uri()
        frame.write_text(MEASURE.replace("PAGE", page), encoding="utf-8")
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}/user",
             "--allow-file-access-from-files", "--virtual-time-budget=20000", "--dump-dom",
             frame.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    match = re.search("RESULT(.*)END", done.stdout)
    return json.loads(urllib.parse.unquote(match[1])) if match else None


def check_rendered(report, folder):
    seen = render(folder)
    if seen is None:
        print("    Chromium is not installed or does not start: the page was not rendered")
        return
    for width, result in seen.items():
        wrong = result["wrong"] + [f"{key} shows {shown}" for key, shown in result["figures"]
                                   if not agrees(shown, find(report, key))]
        for line in wrong:
            print(f"OFF page at {width} pixels: {line}")
        good = not wrong and result["charts"] == 5 and len(result["figures"]) >= 60
        print(f"{'ok ' if good else 'OFF'} page at {width} pixels: {result['charts']} charts, "
              f"{len(result['figures'])} figures against report.json")
        if not good:
            failures.append(f"page at {width} pixels")


def check_libraries(report, rows):
    try:
        import pandas
    except ImportError:
        print("    pandas is not installed: no comparison with other libraries")
        return
    rows = [row for row in rows if row["equity"]]
    equity = pandas.Series([float(row["equity"]) for row in rows],
                           index=pandas.to_datetime([row["time"] for row in rows], utc=True))
    x, a_year = equity.pct_change().dropna(), report["bars_per_year"]
    ours = report["agent"]
    if report["risk_free"] != 0 or equity.min() <= 0 or len(x) < 30:
        print("    a risk-free rate, ruin or too few bars: no comparison with other libraries")
        return
    try:
        import empyrical
        compare("empyrical cum_returns_final", ours["total_return"],
                empyrical.cum_returns_final(x))
        if ours["cagr"] is not None:  # they give one for less than a quarter of a year as well
            compare("empyrical annual_return", ours["cagr"],
                    empyrical.annual_return(x, annualization=a_year))
            compare("empyrical calmar_ratio", ours["calmar"],
                    empyrical.calmar_ratio(x, annualization=a_year))
        compare("empyrical annual_volatility", ours["volatility"],
                empyrical.annual_volatility(x, annualization=a_year))
        compare("empyrical sharpe_ratio", ours["sharpe"],
                empyrical.sharpe_ratio(x, annualization=a_year))
        compare("empyrical sortino_ratio", ours["sortino"],
                empyrical.sortino_ratio(x, annualization=a_year))
        compare("empyrical max_drawdown", ours["max_drawdown"], -empyrical.max_drawdown(x))
    except ImportError:
        print("    empyrical is not installed")
    try:
        import quantstats
        stats = quantstats.stats
        compare("quantstats comp", ours["total_return"], float(stats.comp(x)))
        compare("quantstats volatility", ours["volatility"],
                float(stats.volatility(x, periods=a_year)))
        compare("quantstats sharpe", ours["sharpe"], float(stats.sharpe(x, periods=a_year)))
        compare("quantstats sortino", ours["sortino"], float(stats.sortino(x, periods=a_year)))
        compare("quantstats max_drawdown (of equity)", ours["max_drawdown"],
                -float(stats.max_drawdown(equity)))
        if ours["cagr"] is not None:
            compare("quantstats cagr", ours["cagr"], float(stats.cagr(x, periods=a_year)))
    except ImportError:
        print("    quantstats is not installed")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"),
                        parse_constant=lambda word: sys.exit(f"report.json holds {word}"))
    with open(folder / "equity.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    datetime.datetime.fromisoformat(rows[-1]["time"].replace("Z", "+00:00"))
    agent = check_by_hand(report, rows, "equity", report["agent"])
    market = check_by_hand(report, rows, "buy_and_hold", report["buy_hold"])
    check_by_hand(report, rows, "short_and_hold", report["short_hold"])
    check_relation(report, agent, market)
    check_trades(report, folder)
    check_folds(report, rows)
    check_page(report, folder)
    check_rendered(report, folder)
    check_libraries(report, rows)
    if failures:
        sys.exit(f"{len(failures)} of the figures are off: {', '.join(failures)}")
    print("all figures agree")


if __name__ == "__main__":
    main()
