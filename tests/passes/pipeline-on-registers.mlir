// RUN: convert-ttir-to-ttgir{num_warps=4 target=hip:gfx942 lanes=64},coalesce,accelerate-matmul,assign-layouts,licm,pipeline{num_stages=2},canonicalize,dce

// The loads of the next iteration begin before the product and are stored after it.
// CHECK-LABEL: @mm
// CHECK: %[[RING:.*]] = ttg.local_alloc : () -> !ttg.memdesc<1x64x64xf16, #shared, #smem, mutable>
// CHECK: %[[FIRST:.*]] = arith.cmpi sgt, %n, %c0_i32
// CHECK: %[[MASK:.*]] = tt.splat %[[FIRST]]
// CHECK: %[[X:.*]] = tt.load {{.*}}, %[[MASK]]
// CHECK: ttg.local_store %[[X]],
// CHECK: scf.for
// CHECK: %[[NEXT:.*]] = arith.cmpi slt,
// CHECK: tt.splat %[[NEXT]]
// CHECK: %[[Y:.*]] = tt.load
// CHECK: %[[M:.*]] = ttg.memdesc_index %[[RING]][%c0_i32]
// CHECK: ttg.local_load %[[M]]
// CHECK: tt.dot
// CHECK: %[[N:.*]] = ttg.memdesc_index %[[RING]][%c0_i32]
// CHECK-NEXT: ttg.local_store %[[Y]], %[[N]]
// CHECK-NEXT: scf.yield
// CHECK-NOT: ttg.async_wait
// CHECK: ttg.local_dealloc %[[RING]]
tt.func public @mm(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %s = arith.constant dense<1024> : tensor<64x1xi32>
  %rs = arith.muli %re, %s : tensor<64x1xi32>
  %rb = tt.broadcast %rs : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %rb, %cb : tensor<64x64xi32>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
  %p0 = tt.addptr %base, %at : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %p0) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %e = tt.dot %x, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}

// What the thread that loads it computes with stays in registers, which the loop carries.
// CHECK-LABEL: @sum
// CHECK-NOT: ttg.local_alloc
// CHECK: %[[X:.*]] = tt.load
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[H:.*]] = %[[X]])
// CHECK: %[[Y:.*]] = tt.load
// CHECK: %[[T:.*]] = arith.addf %[[S]], %[[H]]
// CHECK: scf.yield %[[T]], {{.*}}, %[[Y]]
tt.func public @sum(%a: tensor<1024x!tt.ptr<f32>>, %n: i32, %o: tensor<1024x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<1024xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant dense<1024> : tensor<1024xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %a) -> (tensor<1024xf32>, tensor<1024x!tt.ptr<f32>>) : i32 {
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>>
    %e = arith.addf %d, %x : tensor<1024xf32>
    %q = tt.addptr %p, %step : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    scf.yield %e, %q : tensor<1024xf32>, tensor<1024x!tt.ptr<f32>>
  } {tt.num_stages = 2 : i32}
  tt.store %o, %acc : tensor<1024x!tt.ptr<f32>>
  tt.return
}

// What replaces some of the loaded elements does so before they are stored.
// CHECK-LABEL: @mm_of_rows
// CHECK: %[[RING:.*]] = ttg.local_alloc : () -> !ttg.memdesc<1x64x64xf16
// CHECK: %[[X:.*]] = tt.load
// CHECK: %[[Z:.*]] = arith.select %{{.*}}, %[[X]],
// CHECK: ttg.local_store %[[Z]],
// CHECK: scf.for
// CHECK: %[[Y:.*]] = tt.load
// CHECK-NOT: tt.load
// CHECK-NOT: arith.select
// CHECK: ttg.local_load
// CHECK: tt.dot
// CHECK: %[[C:.*]] = arith.select %{{.*}}, %[[Y]],
// CHECK: ttg.local_store %[[C]],
// CHECK: scf.yield
tt.func public @mm_of_rows(%a: tensor<64x64x!tt.ptr<f16>>, %w: tensor<64x64xi1>, %b: tensor<64x64xf16>, %n: i32, %o: tensor<64x64x!tt.ptr<f32>>) {
  %z = arith.constant dense<0.0> : tensor<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf16>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %acc, %last = scf.for %i = %c0 to %n step %c1 iter_args(%d = %z, %p = %a) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>) : i32 {
    %x = tt.load %p : tensor<64x64x!tt.ptr<f16>>
    %y = arith.select %w, %x, %zero : tensor<64x64xi1>, tensor<64x64xf16>
    %e = tt.dot %y, %b, %d : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
    %q = tt.addptr %p, %step : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    scf.yield %e, %q : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f16>>
  }
  tt.store %o, %acc : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
