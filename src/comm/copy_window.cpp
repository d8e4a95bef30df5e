#include "comm/copy_window.hpp"

#include <utility>

namespace shardsolve::comm {

void CopyWindow::publish(runtime::Queue& queue, std::vector<WindowPart> parts) {
  if (parts.size() == 1) {
    const WindowPart& part = parts.front();
    communicator_.broadcast(queue, {base(rank_) + part.offset, part.size}, part.root);
    return;
  }
  std::vector<Bytes> pieces(static_cast<std::size_t>(ranks_));
  for (const WindowPart& part : parts) {
    pieces[static_cast<std::size_t>(part.root)] = {base(rank_) + part.offset, part.size};
  }
  communicator_.all_gather(queue, std::move(pieces));
}

}  // namespace shardsolve::comm
