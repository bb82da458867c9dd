// RUN: gluon-make-operands-whole

#split = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1]]}>
#copies = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[0]]}>

// Any element may be gathered: a tile that two blocks share is brought to both. The places stay.
// CHECK-LABEL: @shared
// CHECK: %[[ALL:.*]] = ttg.convert_layout %x : tensor<256xf32, #{{.*}}> -> tensor<256xf32, #[[WHOLE:.*]]>
// CHECK-NEXT: tt.gather %[[ALL]][%i]
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @shared(%x: tensor<256xf32, #split>, %i: tensor<256xi32, #split>) -> tensor<256xf32, #split> {
    %y = tt.gather %x[%i] {axis = 0 : i32} : (tensor<256xf32, #split>, tensor<256xi32, #split>) -> tensor<256xf32, #split>
    tt.return %y : tensor<256xf32, #split>
  }

  // Each block has all of it.
  // CHECK-LABEL: @whole
  // CHECK-NOT: convert_layout
  tt.func public @whole(%x: tensor<256xf32, #copies>, %i: tensor<256xi32, #split>) -> tensor<256xf32, #split> {
    %y = tt.gather %x[%i] {axis = 0 : i32} : (tensor<256xf32, #copies>, tensor<256xi32, #split>) -> tensor<256xf32, #split>
    tt.return %y : tensor<256xf32, #split>
  }
}
