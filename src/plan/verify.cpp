// Checks a plan: every read finds what was written, nothing that lives is written over, and launches fit their kernels.

#include <algorithm>
#include <map>

#include "plan/arena.h"
#include "tcc/plan/plan.h"

namespace tcc::plan {
namespace {

/// Bytes [begin, end) of a buffer that is no alias.
struct Range {
  int buffer;
  int64_t begin, end;
};

/// Which bytes of a buffer have been written, as disjoint ranges.
class Written {
 public:
  void add(int64_t begin, int64_t end) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_[begin] = end;
  }
  bool holds(int64_t begin, int64_t end) const {
    if (begin == end) return true;
    auto at = ranges_.upper_bound(begin);
    return at != ranges_.begin() && std::prev(at)->second >= end;
  }

 private:
  std::map<int64_t, int64_t> ranges_;
};

class Verifier {
 public:
  explicit Verifier(const Plan& plan)
      : plan_(plan), written_(plan.buffers.size()), first_(plan.buffers.size(), -1), last_(plan.buffers.size(), -1) {}

  std::vector<std::string> run() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) check_buffer(i);
    if (!faults_.empty()) return std::move(faults_);
    for (size_t i = 0; i < plan_.launches.size(); ++i) check_launch(static_cast<int>(i));
    check_overlaps();
    return std::move(faults_);
  }

 private:
  const Buffer& buffer(int number) const { return plan_.buffers[static_cast<size_t>(number)]; }
  static std::string quoted(const Buffer& buffer) { return "`" + buffer.name + "`"; }

  void check_buffer(size_t number) {
    const Buffer& b = plan_.buffers[number];
    if (b.kind == Buffer::Kind::arena) {
      if (b.offset % kArenaAlignment != 0)
        faults_.push_back("buffer " + quoted(b) + " is at " + std::to_string(b.offset) + ", which is not aligned");
      if (b.offset < 0 || b.offset + b.size_bytes > plan_.arena_bytes)
        faults_.push_back("buffer " + quoted(b) + " reaches beyond the arena");
    }
    if (b.kind != Buffer::Kind::alias) return;
    // A chain longer than the number of buffers is a cycle.
    size_t steps = 0;
    int at = static_cast<int>(number);
    while (buffer(at).kind == Buffer::Kind::alias) {
      const int base = buffer(at).index;
      if (base < 0 || base >= static_cast<int>(plan_.buffers.size()) || ++steps > plan_.buffers.size()) {
        faults_.push_back("the alias " + quoted(b) + " has no base");
        return;
      }
      if (buffer(at).offset < 0 || buffer(at).offset + buffer(at).size_bytes > buffer(base).size_bytes) {
        faults_.push_back("the alias " + quoted(b) + " reaches beyond its base " + quoted(buffer(base)));
        return;
      }
      at = base;
    }
  }

  Range range_of(int number) const {
    int64_t offset = 0;
    const int64_t size = buffer(number).size_bytes;
    while (buffer(number).kind == Buffer::Kind::alias) {
      offset += buffer(number).offset;
      number = buffer(number).index;
    }
    return {number, offset, offset + size};
  }

  void touch(int launch, const Range& range) {
    int& first = first_[static_cast<size_t>(range.buffer)];
    if (first < 0) first = launch;
    last_[static_cast<size_t>(range.buffer)] = launch;
  }

  void check_launch(int number) {
    const Launch& launch = plan_.launches[static_cast<size_t>(number)];
    const std::string where = "launch " + std::to_string(number) + " \"" + launch.label + "\"";
    for (int argument : launch.arguments) {
      if (argument < 0 || argument >= static_cast<int>(plan_.buffers.size())) {
        faults_.push_back(where + " names a buffer that is not there");
        return;
      }
    }
    std::vector<bool> writes(launch.arguments.size());
    if (launch.kind == Launch::Kind::copy) {
      if (launch.arguments.size() != 2) {
        faults_.push_back(where + " copies with " + std::to_string(launch.arguments.size()) + " arguments, expected 2");
        return;
      }
      if (buffer(launch.arguments[0]).size_bytes != buffer(launch.arguments[1]).size_bytes)
        faults_.push_back(where + " copies between buffers of different sizes");
      writes[1] = true;
    } else {
      if (launch.kernel < 0 || launch.kernel >= static_cast<int>(plan_.kernels.size())) {
        faults_.push_back(where + " runs a kernel that is not there");
        return;
      }
      const loop::Kernel& kernel = plan_.kernels[static_cast<size_t>(launch.kernel)];
      if (kernel.params.size() != launch.arguments.size()) {
        faults_.push_back(where + " has " + std::to_string(launch.arguments.size()) + " arguments, the kernel " +
                          std::to_string(kernel.params.size()) + " parameters");
        return;
      }
      if (kernel.grid != launch.grid) faults_.push_back(where + " has another grid than its kernel");
      for (size_t i = 0; i < kernel.params.size(); ++i) {
        const loop::Buffer& param = *kernel.params[i].buffer;
        writes[i] = kernel.params[i].written;
        if (buffer(launch.arguments[i]).dtype != param.dtype || buffer(launch.arguments[i]).shape != param.extents) {
          faults_.push_back(where + " gives " + quoted(buffer(launch.arguments[i])) + " for a parameter of another type");
        }
      }
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      const Range range = range_of(launch.arguments[i]);
      touch(number, range);
      const Buffer& base = buffer(range.buffer);
      const bool outside = base.kind == Buffer::Kind::input || base.kind == Buffer::Kind::weight;
      if (writes[i] && outside) faults_.push_back(where + " writes to " + quoted(base) + ", which is only read");
      if (!writes[i] && !outside && !written_[static_cast<size_t>(range.buffer)].holds(range.begin, range.end)) {
        faults_.push_back(where + " reads " + quoted(buffer(launch.arguments[i])) + " before all of it is written");
      }
      for (size_t k = 0; k < i; ++k) {
        const Range other = range_of(launch.arguments[k]);
        if ((writes[i] || writes[k]) && other.buffer == range.buffer && other.begin < range.end && range.begin < other.end) {
          faults_.push_back(where + " writes to " + quoted(base) + " under two names");
        }
      }
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      const Range range = range_of(launch.arguments[i]);
      if (writes[i]) written_[static_cast<size_t>(range.buffer)].add(range.begin, range.end);
    }
  }

  void check_overlaps() {
    std::vector<int> order;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].kind == Buffer::Kind::arena && first_[i] >= 0 && plan_.buffers[i].size_bytes > 0)
        order.push_back(static_cast<int>(i));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return buffer(a).offset < buffer(b).offset; });
    for (size_t i = 0; i < order.size(); ++i) {
      const int a = order[i];
      for (size_t k = i + 1; k < order.size() && buffer(order[k]).offset < buffer(a).offset + buffer(a).size_bytes; ++k) {
        const int b = order[k];
        if (first_[static_cast<size_t>(a)] <= last_[static_cast<size_t>(b)] &&
            first_[static_cast<size_t>(b)] <= last_[static_cast<size_t>(a)]) {
          faults_.push_back("buffers " + quoted(buffer(a)) + " and " + quoted(buffer(b)) + " overlap while both are in use");
        }
      }
    }
  }

  const Plan& plan_;
  std::vector<std::string> faults_;
  std::vector<Written> written_;
  std::vector<int> first_, last_;  ///< launches that use a buffer, -1 for none
};

}  // namespace

std::vector<std::string> verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace tcc::plan
