// Runs tests in processes of their own, several at a time: one that crashes or hangs costs only itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tcc::onnx_suite {

/// Calls `task(i)` for i below `count`, each in a child process, and returns what they return. A crash gives "crashed: ...", a task that takes
/// longer than `timeout_s` gives "timed out".
std::vector<std::string> run_isolated(int count, int processes, int timeout_s, const std::function<std::string(int)>& task);

}  // namespace tcc::onnx_suite
