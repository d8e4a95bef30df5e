// The communicator between ranks that are threads, against what each operation is defined to do.

#include "comm/in_process.hpp"

#include "mesh/mesh_state.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/support/rank_program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::comm {
namespace {

using Numbers = std::vector<std::int32_t>;

/// Memory of a rank for the length of a call, filled by its transfer queue.
Bytes device(mesh::Rank& rank, const Numbers& values) {
  const std::size_t bytes = values.size() * sizeof(std::int32_t);
  const auto view = rank.workspace<std::int32_t>(static_cast<std::int64_t>(values.size()), 1);
  if (bytes > 0) {
    rank.transfer().copy(view.data(), values.data(), bytes);
    rank.transfer().synchronize();
  }
  return {view.data(), bytes};
}

Numbers fetch(mesh::Rank& rank, Bytes piece) {
  return rank.fetch(rank.transfer(), static_cast<const std::int32_t*>(piece.data),
                    static_cast<std::int64_t>(piece.size / sizeof(std::int32_t)));
}

/// What rank `from` has for rank `to`: of a length and a content of its own; often nothing.
Numbers message(std::int64_t from, std::int64_t to, std::int64_t round) {
  const std::int64_t length = (from * 7 + to * 3 + round * 5) % 11;
  Numbers values;
  for (std::int64_t i = 0; i < (length < 3 ? 0 : length * length); ++i) {
    values.push_back(static_cast<std::int32_t>(((round * 10 + from) * 10 + to) * 1000 + i));
  }
  return values;
}

Numbers unknown(const Numbers& like) { return Numbers(like.size(), -1); }

class InProcessTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t rounds = 20;
  Mesh mesh_ = Mesh::host(GetParam());

  /// Runs one operation again and again, back to back.
  void run(const std::function<void(mesh::Rank&, std::int64_t)>& operation) {
    testing::run_on(mesh_, [&operation](mesh::Rank& rank) {
      for (std::int64_t round = 0; round < rounds; ++round) {
        operation(rank, round);
      }
    });
  }
};

TEST_P(InProcessTest, Broadcast_GivesTheRootsDataToAll) {
  run([](mesh::Rank& rank, std::int64_t round) {
    const std::int64_t root = round % rank.count();
    const Numbers sent = message(root, 0, round);
    const Bytes data = device(rank, rank.index() == root ? sent : unknown(sent));
    rank.communicator().broadcast(rank.transfer(), data, root);
    EXPECT_EQ(fetch(rank, data), sent);
  });
}

TEST_P(InProcessTest, AllGather_GivesEveryPieceToAll) {
  run([](mesh::Rank& rank, std::int64_t round) {
    std::vector<Bytes> pieces;
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      const Numbers piece = message(r, 0, round);
      pieces.push_back(device(rank, r == rank.index() ? piece : unknown(piece)));
    }
    rank.communicator().all_gather(rank.transfer(), pieces);
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      EXPECT_EQ(fetch(rank, pieces[static_cast<std::size_t>(r)]), message(r, 0, round));
    }
  });
}

TEST_P(InProcessTest, Gather_GivesEveryPieceToTheRootAlone) {
  run([](mesh::Rank& rank, std::int64_t round) {
    const std::int64_t root = round % rank.count();
    const Bytes mine = device(rank, message(rank.index(), root, round));
    std::vector<Bytes> pieces(static_cast<std::size_t>(rank.count()));
    for (std::int64_t r = 0; r < rank.count() && rank.index() == root; ++r) {
      pieces[static_cast<std::size_t>(r)] = device(rank, unknown(message(r, root, round)));
    }
    rank.communicator().gather(rank.transfer(), mine, pieces, root);
    EXPECT_EQ(fetch(rank, mine), message(rank.index(), root, round));
    for (std::int64_t r = 0; r < rank.count() && rank.index() == root; ++r) {
      const Numbers sent = message(r, root, round);
      // the root's own piece is left alone
      EXPECT_EQ(fetch(rank, pieces[static_cast<std::size_t>(r)]), r == root ? unknown(sent) : sent);
    }
  });
}

TEST_P(InProcessTest, AllToAll_GivesEachPieceToItsRank) {
  run([](mesh::Rank& rank, std::int64_t round) {
    std::vector<Bytes> send;
    std::vector<Bytes> receive;
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      send.push_back(device(rank, message(rank.index(), r, round)));
      receive.push_back(device(rank, unknown(message(r, rank.index(), round))));
    }
    rank.communicator().all_to_all(rank.transfer(), send, receive);
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      const Numbers sent = message(r, rank.index(), round);
      EXPECT_EQ(fetch(rank, receive[static_cast<std::size_t>(r)]),
                r == rank.index() ? unknown(sent) : sent);
      EXPECT_EQ(fetch(rank, send[static_cast<std::size_t>(r)]), message(rank.index(), r, round));
    }
  });
}

/// The sender may use its memory again as soon as the operation is complete on its own side.
TEST_P(InProcessTest, MemorySentAndUsedAgain_ArrivesAsItWas) {
  run([](mesh::Rank& rank, std::int64_t round) {
    const Numbers zeros(400, 0);
    const Bytes data = device(rank, zeros);
    const Bytes copy = device(rank, zeros);
    const auto value = static_cast<std::int64_t>(round + 1);
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      if (rank.index() == root) {
        rank.transfer().store(static_cast<std::int64_t*>(data.data), value, 1);
      }
      rank.communicator().broadcast(rank.transfer(), data, root);
      rank.transfer().copy(copy.data, data.data, data.size);
      rank.transfer().store(static_cast<std::int64_t*>(data.data), -value, 1);
    }
    EXPECT_EQ(fetch(rank, copy).front(), round + 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, InProcessTest, ::testing::Values(1, 2, 3, 4, 5, 6));

}  // namespace
}  // namespace shardsolve::comm
