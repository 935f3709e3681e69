#include "runtime/stub/live_instances.h"

#include <pthread.h>

namespace tcc::stub {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
tcc_instance* first = nullptr;

// By dlclose, and when the process ends. The code that the threads run is about to go. Their memory stays: at the end of a process the
// owner's destroy may still come, and a run that another thread is in then ends on that thread alone.
__attribute__((destructor)) void end_threads() {
  pthread_mutex_lock(&mutex);
  for (tcc_instance* instance = first; instance; instance = instance->next_live) instance->pool.stop();
  pthread_mutex_unlock(&mutex);
}

}  // namespace

void add_live(tcc_instance* instance) {
  pthread_mutex_lock(&mutex);
  instance->next_live = first;
  first = instance;
  pthread_mutex_unlock(&mutex);
}

bool remove_live(const tcc_instance* instance) {
  pthread_mutex_lock(&mutex);
  bool found = false;
  for (tcc_instance** at = &first; *at && !found;) {
    found = *at == instance;
    if (found) *at = instance->next_live;
    else at = &(*at)->next_live;
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

}  // namespace tcc::stub
