// RUN: thread-locality,canonicalize

// Threads add up what they have of a row; they exchange the sums after the loop.
// CHECK-LABEL: @rows
// CHECK: %[[NEUTRAL:.*]] = arith.constant dense<-0.000000e+00> : tensor<4x32xf32,
// CHECK: %[[SUMS:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[NEUTRAL]]) -> (tensor<4x32xf32,
// CHECK: %[[PARTS:.*]] = tt.reshape %{{.*}} : tensor<4x256xf32, #blocked> -> tensor<4x2x32x4xf32,
// CHECK: %[[FOUR:.*]] = "tt.reduce"(%[[PARTS]]) <{axis = 3 : i32}>
// CHECK: %[[TWO:.*]] = "tt.reduce"(%[[FOUR]]) <{axis = 1 : i32}>
// CHECK: %[[NEXT:.*]] = arith.addf %[[ACC]], %[[TWO]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[TOTAL:.*]] = "tt.reduce"(%[[SUMS]]) <{axis = 1 : i32}>
// CHECK: %[[ROW:.*]] = ttg.convert_layout %[[TOTAL]]
// CHECK: %[[SUM:.*]] = arith.addf %[[ROW]],
// CHECK: tt.store %{{.*}}, %[[SUM]]

// Left as it is: an accumulator that the loop reads, one that is combined in another way, elements
// that all are in one thread.
// CHECK-LABEL: @left
// CHECK-NOT: tt.reshape
// CHECK: tt.return
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
#column = #ttg.blocked<{sizePerThread = [1, 256], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 1, parent = #blocked}>
#other = #ttg.slice<{dim = 1, parent = #column}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @rows(%x: tensor<4x256xf32, #blocked>, %n: i32, %p: tensor<4x!tt.ptr<f32>, #row>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<4xf32, #row>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<4xf32, #row>) : i32 {
      %y = math.exp %x : tensor<4x256xf32, #blocked>
      %s = "tt.reduce"(%y) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (tensor<4x256xf32, #blocked>) -> tensor<4xf32, #row>
      %new = arith.addf %acc, %s : tensor<4xf32, #row>
      scf.yield %new : tensor<4xf32, #row>
    }
    tt.store %p, %r : tensor<4x!tt.ptr<f32>, #row>
    tt.return
  }
  tt.func public @left(%x: tensor<4x256xf32, #blocked>, %z: tensor<4x256xf32, #column>, %n: i32, %p: tensor<4x!tt.ptr<f32>, #row>, %q: tensor<4x!tt.ptr<f32>, #other>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<4xf32, #row>
    %none = arith.constant dense<0.0> : tensor<4xf32, #other>
    %r, %k, %o = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %most = %zero, %own = %none) -> (tensor<4xf32, #row>, tensor<4xf32, #row>, tensor<4xf32, #other>) : i32 {
      %s = "tt.reduce"(%x) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (tensor<4x256xf32, #blocked>) -> tensor<4xf32, #row>
      %new = arith.addf %acc, %s : tensor<4xf32, #row>
      tt.store %p, %acc : tensor<4x!tt.ptr<f32>, #row>
      %t = "tt.reduce"(%x) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (tensor<4x256xf32, #blocked>) -> tensor<4xf32, #row>
      %more = arith.maxnumf %most, %t : tensor<4xf32, #row>
      %u = "tt.reduce"(%z) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (tensor<4x256xf32, #column>) -> tensor<4xf32, #other>
      %all = arith.addf %own, %u : tensor<4xf32, #other>
      scf.yield %new, %more, %all : tensor<4xf32, #row>, tensor<4xf32, #row>, tensor<4xf32, #other>
    }
    tt.store %p, %r : tensor<4x!tt.ptr<f32>, #row>
    tt.store %p, %k : tensor<4x!tt.ptr<f32>, #row>
    tt.store %q, %o : tensor<4x!tt.ptr<f32>, #other>
    tt.return
  }
}
