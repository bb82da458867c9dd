// RUN: hoist-tensor-memory

#rows = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-LABEL: @in_a_branch_of_a_loop
  // CHECK: ttng.tmem_alloc : ()
  // CHECK: %[[M:.*]] = ttng.tmem_alloc : ()
  // CHECK: scf.for
  // CHECK: scf.if
  // CHECK-NOT: tmem_alloc
  // CHECK: %[[YES:.*]] = arith.constant true
  // CHECK: ttng.tmem_store %x, %[[M]], %[[YES]]
  // CHECK: ttng.tmem_load %[[M]]
  tt.func public @in_a_branch_of_a_loop(%x: tensor<128x64xf32, #rows>, %c: i1, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      scf.if %c {
        %m = ttng.tmem_alloc %x : (tensor<128x64xf32, #rows>) -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
        %y = ttng.tmem_load %m : !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x64xf32, #rows>
        tt.print " " {hex = false, isSigned = array<i32: 1>} : %y : tensor<128x64xf32, #rows>
      }
      %other = ttng.tmem_alloc : () -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
      ttng.tmem_store %x, %other, %c : tensor<128x64xf32, #rows> -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    tt.return
  }

  // CHECK-LABEL: @handed_on
  // CHECK: scf.if
  // CHECK: ttng.tmem_alloc
  // CHECK: ttng.tmem_alloc
  tt.func public @handed_on(%x: tensor<128x64xf32, #rows>, %c: i1) {
    %m = scf.if %c -> (!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>) {
      %a = ttng.tmem_alloc : () -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
      scf.yield %a : !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    } else {
      %b = ttng.tmem_alloc : () -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
      scf.yield %b : !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    }
    ttng.tmem_store %x, %m, %c : tensor<128x64xf32, #rows> -> !ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>
    tt.return
  }
}
