package sample

import "testing"

func FuzzKind(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, s string) {
		if Kind(s) == "" {
			t.Fatal("no kind")
		}
	})
}

func FuzzThird(f *testing.F) {
	f.Add("abc")
	f.Fuzz(func(_ *testing.T, s string) { Third(s) })
}
