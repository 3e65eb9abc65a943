package limit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	bank = Destination{"https", "bank.test"}
	shop = Destination{"https", "shop.test"}
)

// many is more destinations than are kept.
const many = 10_000

func nth(i int) Destination { return Destination{"https", fmt.Sprintf("%d.test", i)} }

func TestDestination(t *testing.T) {
	require.Equal(t, "https://bank.test", bank.String())
	require.Equal(t, "http://[::1]:8080", Destination{"http", "[::1]:8080"}.String())
}
