#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/random.h"

namespace tiercel {
namespace {

TEST(JsonWriter, KeepsUtf8AndReplacesWhatIsNone) {
  JsonWriter json(false);
  json.begin_array()
      .value("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80")
      .value("tr\xff.jsonl")
      .value("\xc0\xaf\xed\xa0\x80\xe2\x82");
  json.end_array();
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(json.text(), "[\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\",\"tr" + bad + ".jsonl\",\"" +
                             bad + bad + bad + bad + bad + bad + bad + "\"]");
}

std::string number_text(double number) {
  JsonWriter json(false);
  json.value(number);
  return json.text();
}

TEST(JsonWriter, QuotesSeparatesAndWritesNumbersUnrounded) {
  JsonWriter json(false);
  json.begin_object().member("a", "x\"\n").key("b").begin_array();
  json.value(0.1).value(1U).null().end_array();
  json.member("c", true).key("d").begin_object().end_object().end_object();
  EXPECT_EQ(json.text(), "{\"a\":\"x\\\"\\u000a\",\"b\":[0.1,1,null],\"c\":true,\"d\":{}}");
}

TEST(JsonWriter, EscapesWhatJsonForbidsAndLeavesUtf8Alone) {
  JsonWriter json(false);
  json.value(std::string_view("a\\b\"c\x01\x1f\0d\xc3\xa9/", 12));
  EXPECT_EQ(json.text(), "\"a\\\\b\\\"c\\u0001\\u001f\\u0000d\xc3\xa9/\"");
}

TEST(JsonWriter, NumbersReadBackToTheSameDouble) {
  Rng rng(11);
  for (int i = 0; i < 5000; ++i) {
    const double number = rng.normal() * std::pow(10.0, static_cast<double>(rng.below(60)) - 30);
    EXPECT_EQ(std::strtod(number_text(number).c_str(), nullptr), number);
  }
}

TEST(JsonWriter, WholeNumbersKeepAllTheirBits) {
  JsonWriter json(false);
  json.begin_array();
  json.value(std::numeric_limits<std::uint64_t>::max())
      .value(std::numeric_limits<std::int64_t>::min());
  json.value(std::int32_t{-1}).value(std::uint32_t{4000000000}).end_array();
  EXPECT_EQ(json.text(), "[18446744073709551615,-9223372036854775808,-1,4000000000]");
}

// JSON has no NaN and no infinity; a reader would refuse the whole report.
TEST(JsonWriter, WhatIsNoNumberBecomesNull) {
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonWriter, PrettyTextIndentsByDepthAndKeepsEmptyBracketsTogether) {
  JsonWriter json;
  json.begin_object().member("a", 1U).key("b").begin_array().value(2U).begin_object().end_object();
  json.end_array().end_object();
  EXPECT_EQ(json.text(), "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    {}\n  ]\n}");
}

}  // namespace
}  // namespace tiercel
