// What `tcc tune` has measured, as a text that is checked in: for each unit and target the schedule that was the fastest.
//
//   tcc-tuning 1
//
//   unit 8f0c1e4b6a2d937750be1c2f0d94a863 for x86-64-v3
//     computes   1/node_linear + 2/node_relu: f32[8, 784], f32[64, 784], f32[64] -> f32[8, 64]
//     chip       AMD EPYC 9354, 2 threads
//     default    9.10 us
//     tuned      8.36 us
//     schedule   split(k, 32) ...
//
// Entries are sorted, so that two branches that tune different models merge. Lines that begin with `#` are comments, which a rewrite drops.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tcc/loop/first_form.h"
#include "tcc/target/target.h"

namespace tcc::driver {

struct TuningEntry {
  std::string computes;  ///< what the unit is, for who reads the file
  std::string chip;      ///< that it was measured on
  double default_us = 0, tuned_us = 0;
  std::string schedule;  ///< its text
  int line = 0;          ///< of the file, of the schedule; 0: not from one
};

/// Of a unit on a target: a hash of the first form's text and of all that a choice for the target depends on beside it.
struct TuningKey {
  std::string target, hash;
  auto operator<=>(const TuningKey&) const = default;
};
TuningKey tuning_key(const loop::FirstForm& form, const Target& target);

using TuningDatabase = std::map<TuningKey, TuningEntry>;

/// Error (usage, "invalid-tuning") with every line that is wrong: another version, a word that is not known, an entry that lacks a line or is there twice.
TuningDatabase parse_tuning(std::string_view text, const std::string& file);
std::string print(const TuningDatabase& database);
std::string print_us(double us);  ///< "8.36 us"

}  // namespace tcc::driver
