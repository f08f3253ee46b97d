// SPDX-License-Identifier: Apache-2.0
// The page, as somebody with a mouse, a keyboard or a screen reader meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/system/serve/browser.h"
#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::HasSubstr;

// A new target is an empty page first.
const char* const kLoaded =
    "document.readyState === 'complete' && document.getElementById('field')?.offsetWidth > 0";

struct Point {
  double x, y;
};

// In parts of the field, 0 to 1.
void draw(Browser& browser, const std::vector<std::vector<Point>>& strokes) {
  const auto box = browser.evaluate(
      "(() => { const b = document.getElementById('field').getBoundingClientRect();"
      " return [b.left, b.top, b.width, b.height]; })()");
  ASSERT_TRUE(box.is_array()) << browser.log();
  const auto at = [&](size_t i) { return box.at(i).to_number<double>(); };
  for (const std::vector<Point>& stroke : strokes) {
    const auto x = [&](const Point& p) { return at(0) + at(2) * p.x; };
    const auto y = [&](const Point& p) { return at(1) + at(3) * p.y; };
    browser.mouse("mousePressed", x(stroke[0]), y(stroke[0]));
    for (const Point& point : stroke) browser.mouse("mouseMoved", x(point), y(point));
    browser.mouse("mouseReleased", x(stroke.back()), y(stroke.back()));
  }
}

// What the page shows after it asked, and what libnrt says to the same pixels.
void expect_truth(Browser& browser, int digit) {
  // Of several requests, since one follows each stroke, the last: the one with all that is drawn.
  ASSERT_TRUE(
      browser.wait_for("document.body.dataset.prediction !== undefined &&"
                       " document.body.dataset.pixels === JSON.stringify(pixels())"))
      << browser.text("document.getElementById('say').textContent");
  const auto shown = boost::json::parse(browser.text("document.body.dataset.probabilities"));
  const auto pixels = boost::json::parse(browser.text("document.body.dataset.pixels"));
  Row row;
  float ink = 0;
  for (size_t i = 0; i < row.size(); ++i) ink += row[i] = pixels.at(i).to_number<float>();
  EXPECT_GT(ink, 50);
  const std::vector<Probabilities> truth = Truth::get().of({row});
  ASSERT_EQ(truth.size(), 1u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(static_cast<float>(shown.at(i).to_number<double>()), truth[0][i]) << i;
  }
  const auto best = std::max_element(truth[0].begin(), truth[0].end()) - truth[0].begin();
  EXPECT_EQ(browser.text("document.getElementById('answer').textContent"), std::to_string(best));
  EXPECT_EQ(best, digit) << browser.text("document.body.dataset.pixels");
  EXPECT_THAT(browser.text("document.getElementById('say').textContent"),
              HasSubstr("This is a " + std::to_string(best)));
  const double width =
      std::stod(browser.text("document.querySelector('#bars .best .fill').style.width"));
  EXPECT_NEAR(width, 100 * truth[0][static_cast<size_t>(best)], 0.06);
}

TEST(Page, ShowsWhatLibnrtAnswersToADigitThatIsDrawnWithAPointer) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  Browser browser(served.address());
  ASSERT_TRUE(browser.valid()) << browser.log();
  ASSERT_TRUE(browser.wait_for(kLoaded));
  EXPECT_EQ(browser.text("document.getElementById('answer').textContent"), "–");

  std::vector<Point> circle;
  for (int i = 0; i <= 24; ++i) {
    const double angle = i * M_PI / 12;
    circle.push_back({0.5 + 0.2 * std::sin(angle), 0.5 - 0.33 * std::cos(angle)});
  }
  draw(browser, {circle});
  expect_truth(browser, 0);
  EXPECT_THAT(browser.text("document.getElementById('device-time').textContent"), HasSubstr("s"));
  EXPECT_EQ(browser.text("document.getElementById('batch-rows').textContent"), "1");

  const auto clear = browser.evaluate(
      "(() => { const b = document.getElementById('clear').getBoundingClientRect();"
      " return [b.left + b.width / 2, b.top + b.height / 2]; })()");
  browser.mouse("mousePressed", clear.at(0).to_number<double>(), clear.at(1).to_number<double>());
  browser.mouse("mouseReleased", clear.at(0).to_number<double>(), clear.at(1).to_number<double>());
  ASSERT_TRUE(browser.wait_for("document.body.dataset.prediction === undefined"));
  draw(browser, {{{0.3, 0.2}, {0.5, 0.2}, {0.7, 0.2}, {0.6, 0.45}, {0.5, 0.65}, {0.42, 0.88}},
                 {{0.38, 0.55}, {0.5, 0.53}, {0.62, 0.52}}});
  expect_truth(browser, 7);

  // Utilisation of the core, from the second look at the counters on.
  EXPECT_TRUE(browser.wait_for(
      "/%$/.test(document.querySelector('#cores tbody tr td:nth-child(2)')?.textContent || '')"));
  // Nothing comes from elsewhere.
  EXPECT_EQ(browser.text("performance.getEntriesByType('resource')"
                         ".filter(e => !e.name.startsWith(location.origin)).length"),
            "0");
}

TEST(Page, IsUsedWithKeysAndHasNamesForScreenReaders) {
  Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  Browser browser(served.address());
  ASSERT_TRUE(browser.valid()) << browser.log();
  ASSERT_TRUE(browser.wait_for(kLoaded));
  browser.evaluate("document.getElementById('field').focus()");
  // A ring is where the next line begins, inside the field.
  const auto ring = [&](const char* edge) {
    return browser
        .evaluate(std::string("document.getElementById('cursor').getBoundingClientRect().") + edge)
        .to_number<double>();
  };
  browser.key("ArrowDown", false);
  EXPECT_EQ(browser.text("getComputedStyle(document.getElementById('cursor')).display"), "block");
  const double left = ring("left"), top = ring("top");
  browser.key("ArrowDown", false);
  EXPECT_EQ(ring("left"), left);
  EXPECT_NEAR(ring("top"), top + 8, 0.5);
  EXPECT_EQ(
      browser.text("(() => { const r = document.getElementById('cursor').getBoundingClientRect(),"
                   " f = document.getElementById('field').getBoundingClientRect();"
                   " return r.left > f.left && r.right < f.right && r.top > f.top; })()"),
      "true");
  for (int i = 0; i < 18; ++i) browser.key("ArrowDown", true);
  ASSERT_TRUE(browser.wait_for("document.body.dataset.prediction !== undefined"));
  browser.key("Delete");
  EXPECT_TRUE(browser.wait_for("document.body.dataset.prediction === undefined"));
  browser.call("Accessibility.enable");
  const std::string tree = boost::json::serialize(browser.call("Accessibility.getFullAXTree"));
  for (const char* name : {"Field to draw a digit in", "Clear", "Probabilities", "Draw a digit"}) {
    EXPECT_THAT(tree, HasSubstr(std::string("\"value\":\"") + name + "\""));
  }
  browser.evaluate("document.getElementById('clear').focus()");
  EXPECT_EQ(browser.text("getComputedStyle(document.getElementById('cursor')).display"), "none");
  // What its numbers are.
  const std::string text = browser.text("document.body.innerText");
  for (const char* part :
       {"Core: a NeuronCore that holds a model", "In use: the part of the last second",
        "Connections: those of all clients that are open now"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(browser.text("document.documentElement.lang"), "en");
  // Without a server it says so.
  served.process().signal(SIGKILL);
  EXPECT_TRUE(browser.wait_for(
      "document.getElementById('state').textContent === 'The server does not answer.'"));
}

}  // namespace
}  // namespace neuron::serve_test
