#include "comm/copy_window.hpp"

namespace shardsolve::comm {

void CopyWindow::publish(runtime::Queue& queue, const WindowPart& part) {
  communicator_.broadcast(queue, {base(rank_) + part.offset, part.size}, part.root);
}

}  // namespace shardsolve::comm
