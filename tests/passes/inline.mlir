// RUN-LOCATIONS: inline

// CHECK-LABEL: @kernel
// CHECK: %b = arith.addf %x, %x : f32 loc(#[[SITE:.*]])
// CHECK-NEXT: %z = tt.call @kept(%b)
// CHECK-NEXT: tt.store %p, %z
tt.func public @kernel(%x: f32, %p: !tt.ptr<f32>) {
  %y = tt.call @twice(%x) : (f32) -> f32 loc("k.py":9:4)
  %z = tt.call @kept(%y) : (f32) -> f32 loc("k.py":10:4)
  tt.store %p, %z : !tt.ptr<f32>
  %c = arith.constant true
  // An early return becomes a conditional.
  // CHECK: scf.if
  // CHECK-NEXT: scf.yield %x : f32
  // CHECK: } else {
  // CHECK: arith.mulf %x, %x
  %w = tt.call @early(%c, %x) : (i1, f32) -> f32
  tt.store %p, %w : !tt.ptr<f32>
  tt.return
}

// CHECK-NOT: @twice
tt.func private @twice(%a: f32) -> f32 {
  %b = arith.addf %a, %a : f32 loc("k.py":2:8)
  tt.return %b : f32
^bb1:
  %u = ub.poison : f32
  tt.return %u : f32
}

// CHECK: tt.func private @kept
tt.func private @kept(%a: f32) -> f32 attributes {noinline = true} {
  tt.return %a : f32
}

// CHECK-NOT: @early
tt.func private @early(%c: i1, %a: f32) -> f32 {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  tt.return %a : f32
^bb2:
  %b = arith.mulf %a, %a : f32
  tt.return %b : f32
}

// CHECK: #[[SITE]] = loc(callsite(
