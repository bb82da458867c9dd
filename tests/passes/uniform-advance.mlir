// RUN: uniform-advance

// CHECK-LABEL: @advance
// CHECK: %[[W:.*]] = arith.extsi %step : i32 to i64
// CHECK: scf.for %i = %lo to %hi step %s iter_args(%{{.*}} = %{{.*}}) -> (i64)
// CHECK: tt.addptr %start,
// CHECK: tt.load
// CHECK: arith.addi %{{.*}}, %[[W]] : i64
tt.func public @advance(%lo: i32, %hi: i32, %s: i32, %start: tensor<64x!tt.ptr<f32>>, %step: i32,
    %out: tensor<64x!tt.ptr<f32>>) {
  scf.for %i = %lo to %hi step %s iter_args(%p = %start) -> (tensor<64x!tt.ptr<f32>>) : i32 {
    %x = tt.load %p : tensor<64x!tt.ptr<f32>>
    tt.store %out, %x : tensor<64x!tt.ptr<f32>>
    %d = tt.splat %step : i32 -> tensor<64xi32>
    %q = tt.addptr %p, %d : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    scf.yield %q : tensor<64x!tt.ptr<f32>>
  }
  tt.return
}
