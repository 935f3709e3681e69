// The text of --help: usage, examples, flags by group, and what follows them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tcc::cli {

/// What a verb's help says beside its flags.
struct Help {
  std::vector<std::string> usage;                             ///< lines without the leading `tcc`; empty: made of the verb and its argument
  std::vector<std::pair<std::string, std::string>> examples;  ///< a command, and what it does
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> tables;  ///< title, rows of name and text
  std::string footer;
};

/// Names of flags as they are written: CLI11 has no long ones with a single dash.
std::string written_name(const std::string& name);
/// -march=sm_90 -> --march=sm_90: the other way.
std::string parsed_name(const std::string& argument);

/// At most 100 columns wide. Flags stand in the order in which they were added, groups in that of their first flag.
std::string help_text(const CLI::App& app, const Help& help);

/// Names and texts in two columns, the texts wrapped.
std::string table_text(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace tcc::cli
