// RUN: symbol-dce

// CHECK: @kernel
tt.func public @kernel() {
  tt.call @used() : () -> ()
  tt.return
}
// CHECK: @used
tt.func private @used() {
  tt.call @deep() : () -> ()
  tt.return
}
// CHECK: @deep
tt.func private @deep() {
  tt.return
}
// CHECK-NOT: @unused
tt.func private @unused() {
  tt.call @unused_too() : () -> ()
  tt.return
}
tt.func private @unused_too() {
  tt.call @unused() : () -> ()
  tt.return
}
