package chance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/chance"
)

func TestReplaceSetsTheSourceUntilItIsRestored(t *testing.T) {
	chance.Replace(func() float64 { return 7 }) // no random number of the default source
	require.Equal(t, 7.0, chance.Float64())
	require.Equal(t, 7.0, chance.Float64())
	chance.Replace(nil)
	require.Less(t, chance.Float64(), 1.0)
	require.NotEqual(t, chance.Float64(), chance.Float64())
}
