// RUN: gluon-order-scans

// A scan is done in the program's layout if a thread has neighbours and lanes follow each other.
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-LABEL: @kept
  // CHECK-NOT: convert_layout
  tt.func public @kept(%x: tensor<256xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>) {
    %0 = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a: i32, %b: i32):
      %s = arith.addi %a, %b : i32
      tt.scan.return %s : i32
    }) : (tensor<256xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>) -> tensor<256xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>
    tt.return
  }

  // Here a tile of 512 goes round again: a thread's registers are not neighbours.
  // CHECK-LABEL: @converted
  // CHECK: %[[IN:.*]] = ttg.convert_layout %x : {{.*}} -> tensor<512xi32, #[[RUNS:.*]]>
  // CHECK: %[[OUT:.*]] = "tt.scan"(%[[IN]])
  // CHECK: -> tensor<512xi32, #[[RUNS]]>
  // CHECK: ttg.convert_layout %[[OUT]] : tensor<512xi32, #[[RUNS]]> -> tensor<512xi32, #[[OWN:.*]]>
  // CHECK: tt.print {{.*}} : tensor<512xi32, #[[OWN]]>
  tt.func public @converted(%x: tensor<512xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>) {
    %0 = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
    ^bb0(%a: i32, %b: i32):
      %s = arith.addi %a, %b : i32
      tt.scan.return %s : i32
    }) : (tensor<512xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>) -> tensor<512xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>
    tt.print " " {hex = false, isSigned = array<i32: 1>} : %0 : tensor<512xi32, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>
    tt.return
  }
}
