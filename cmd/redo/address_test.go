package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestURLsShowNoSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"http://x/y?token=abc": "http://x/y?***",
		"http://x/y":           "http://x/y",
		"https://ana:secret@shop.example/hooks?token=abc": "https://***@shop.example/hooks?***",
		"https://token@shop.example":                      "https://***@shop.example",
		"https://a:b@c@shop.example/@ana":                 "https://***@shop.example/@ana",
		"https://shop.example/@ana?mail=ana@x":            "https://shop.example/@ana?***",
		"https://ana:se/cret@shop.example/hooks":          "a URL that can't be read",
		"https://ana:se?cret@shop.example/hooks":          "a URL that can't be read",
		"https://shop.example:x/hooks?token=abc":          "https://shop.example:x/hooks?***",
		"shop":                                            "shop",
		"ana@shop":                                        "ana@shop", // a name, for outbox.Resolve
	} {
		require.Equal(t, want, withoutSecrets(address))
	}
}
