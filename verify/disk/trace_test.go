package disk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hexed writes a text as strace does.
func hexed(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	f, d := "7<"+hexed("/d/f")+">", "8<"+hexed("/d")+">"
	write := `pwrite64(` + f + `, "` + hexed("ab") + `", 2, 512)`
	openat := "openat(AT_FDCWD<" + hexed("/x") + `>, "` + hexed("/d/f") + `", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = ` + f
	short := []Call{{Kind: Write, Path: "/d/f", Offset: 512, Data: []byte("a")}}
	failed := []Call{{Kind: Sync, Path: "/d/f", Failed: true}}
	ack := `write(1<` + hexed("/dev/null") + `>, "` + hexed("ok\n") + `", 3`
	for name, c := range map[string]struct {
		trace string
		want  []Call
		err   string
	}{
		"calls": {
			"1 " + openat + "\n" +
				"1 " + write + " = 2\n1 ftruncate(" + f + ", 1024) = 0\n1 fdatasync(" + f + ") = 0\n1 fsync(" + d + ") = 0\n" +
				"1 " + ack + ") = 3\n1 +++ exited with 0 +++",
			[]Call{
				{Kind: Create, Path: "/d/f"}, {Kind: Write, Path: "/d/f", Offset: 512, Data: []byte("ab")},
				{Kind: Truncate, Path: "/d/f", Size: 1024}, {Kind: Sync, Path: "/d/f"}, {Kind: SyncDir, Path: "/d"},
				{Kind: Ack, Data: []byte("ok\n")},
			}, "",
		},
		"a short write":           {"1 " + write + " = 1", short, ""},
		"a failed write":          {"1 " + write + " = -1 ENOSPC (No space left on device)", nil, ""},
		"a failed sync":           {"1 fsync(" + f + ") = -1 EIO (x) (INJECTED)", failed, ""},
		"a sync that was ignored": {"1 fsync(" + f + ") = 0 (INJECTED)", nil, ""},
		"a sync that never ended": {"1 fsync(" + f + " <unfinished ...>", nil, ""},
		"a sync when strace left": {"1 fsync(" + f + " <detached ...>", nil, ""},
		"a thread that has ended": {"1 ???( <detached ...>\n1 " + write + " = 1", short, ""},
		"no call":                 {"1 ?", nil, "no system call"},
		"a file elsewhere":        {"1 pwrite64(7<" + hexed("/e/f") + `>, "` + hexed("ab") + `", 2, 0) = 2`, nil, ""},
		"an interrupted call": {
			"1 fsync(" + f + " <unfinished ...>\n2 " + ack + " <unfinished ...>\n1 <... fsync resumed>) = 0\n" +
				"2 <... write resumed>) = 3",
			[]Call{{Kind: Ack, Data: []byte("ok\n")}, {Kind: Sync, Path: "/d/f"}}, "",
		},
		"calls that overlap": {"1 fsync(" + f + " <unfinished ...>\n2 " + write + " = 2", nil, "overlaps"},
		"an unknown call":    {"1 fallocate(" + f + ", 0, 0, 4096) = 0", nil, "fallocate is not known"},
		"a mapping that is written": {
			"1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, " + f + ", 0) = 0x7f0000000000", nil, "mapping",
		},
		"a mapping that is read": {"1 mmap(NULL, 4096, PROT_READ, MAP_SHARED, " + f + ", 0) = 0x7f0000000000", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls, err := Parse(strings.NewReader(c.trace), "/d")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, calls)
		})
	}
}
