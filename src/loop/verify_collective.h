// What the emitter asks of the statements that all threads of a block do together.
#pragma once

#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

std::vector<std::string> faults_of(const Copy& copy);
std::vector<std::string> faults_of(const Mma& mma);

}  // namespace tcc::loop
