// RUN: call-facts

tt.func public @k(%a: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %b: !tt.ptr<f32>, %n: i32) {
  %c64 = arith.constant 64 : i32
  %c48 = arith.constant 48 : i32
  %x = arith.muli %n, %c64 : i32
  tt.call @f(%a, %x, %n) : (!tt.ptr<f32>, i32, i32) -> ()
  tt.call @f(%a, %c48, %c48) : (!tt.ptr<f32>, i32, i32) -> ()
  tt.return
}

// What the callers of its callers know, too.
// CHECK-LABEL: tt.func private @g(
// CHECK-SAME: %p: !tt.ptr<f32> {tt.divisibility = 16 : i32}
// CHECK-SAME: %i: i32 {tt.divisibility = 32 : i32}
tt.func private @g(%p: !tt.ptr<f32>, %i: i32) attributes {noinline = true} {
  tt.return
}

// CHECK-LABEL: tt.func private @f(
// CHECK-SAME: %p: !tt.ptr<f32> {tt.divisibility = 16 : i32}
// CHECK-SAME: %i: i32 {tt.divisibility = 16 : i32}
// CHECK-SAME: %j: i32)
tt.func private @f(%p: !tt.ptr<f32>, %i: i32, %j: i32) attributes {noinline = true} {
  %c2 = arith.constant 2 : i32
  %twice = arith.muli %i, %c2 : i32
  tt.call @g(%p, %twice) : (!tt.ptr<f32>, i32) -> ()
  tt.return
}
