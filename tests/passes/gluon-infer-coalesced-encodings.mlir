// RUN: gluon-infer-coalesced-encodings

// Each access gets the encoding that `coalesce` would choose: along the axis on which addresses run
// on, as wide as is known of them.
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-DAG: #[[WIDE:.*]] = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
  // CHECK-DAG: #[[COLUMNS:.*]] = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
  // CHECK-LABEL: @wide
  // CHECK: tt.make_range {{.*}} : tensor<1024xi32, #[[WIDE]]>
  // CHECK: tt.load %p : tensor<1024x!tt.ptr<f32>, #[[WIDE]]>
  // CHECK: arith.addf %v, %v : tensor<1024xf32, #[[WIDE]]>
  tt.func public @wide(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #gluon.coalesced_encoding>
    %s = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #gluon.coalesced_encoding>
    %p = tt.addptr %s, %r : tensor<1024x!tt.ptr<f32>, #gluon.coalesced_encoding>, tensor<1024xi32, #gluon.coalesced_encoding>
    %v = tt.load %p : tensor<1024x!tt.ptr<f32>, #gluon.coalesced_encoding>
    %w = arith.addf %v, %v : tensor<1024xf32, #gluon.coalesced_encoding>
    tt.store %p, %w : tensor<1024x!tt.ptr<f32>, #gluon.coalesced_encoding>
    tt.return
  }

  // CHECK-LABEL: @columns
  // CHECK: tt.make_range {{.*}} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #[[COLUMNS]]}>>
  // CHECK: tt.load %p : tensor<64x32x!tt.ptr<f16>, #[[COLUMNS]]>
  tt.func public @columns(%x: tensor<1x32x!tt.ptr<f16>, #gluon.coalesced_encoding> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #gluon.coalesced_encoding>
    %e = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32, #gluon.coalesced_encoding> -> tensor<64x1xi32, #gluon.coalesced_encoding>
    %o = tt.broadcast %e : tensor<64x1xi32, #gluon.coalesced_encoding> -> tensor<64x32xi32, #gluon.coalesced_encoding>
    %b = tt.broadcast %x : tensor<1x32x!tt.ptr<f16>, #gluon.coalesced_encoding> -> tensor<64x32x!tt.ptr<f16>, #gluon.coalesced_encoding>
    %p = tt.addptr %b, %o : tensor<64x32x!tt.ptr<f16>, #gluon.coalesced_encoding>, tensor<64x32xi32, #gluon.coalesced_encoding>
    %v = tt.load %p : tensor<64x32x!tt.ptr<f16>, #gluon.coalesced_encoding>
    tt.return
  }
}
