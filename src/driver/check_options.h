// What the command line alone tells of a compilation: choices that don't exist or don't go together, and files.
#pragma once

#include "tcc/driver/options.h"
#include "tcc/support/command_files.h"

namespace tcc::driver {

/// Errors (usage): forms, kinds of models and passes that don't exist, and flags that don't go together. Sets the number of threads.
void set_up(const Options& options);
/// Errors (usage): products and a library that can't come of --pass; a command that asks for nothing.
void check_products(const Options& options);
/// Files that are read and written; Error (usage): a library on standard output.
void list_files(const Options& options, CommandFiles& files);

}  // namespace tcc::driver
