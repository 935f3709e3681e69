// What the emitter asks of the statements that all threads of a block do together.
#pragma once

#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/target/target.h"

namespace tcc::loop {

std::vector<std::string> faults_of(const Copy& copy);
/// `threads`: of a block.
std::vector<std::string> faults_of(const Mma& mma, const Target& target, int threads);

}  // namespace tcc::loop
