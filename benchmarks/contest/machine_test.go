package contest

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCPUModel(t *testing.T) {
	for _, c := range []struct{ rule, cpuinfo, want string }{
		{
			"the first processor's model counts",
			"processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 3 GHz\n\nmodel name\t: Other\n",
			"Fast CPU @ 3 GHz",
		},
		{"a machine that does not tell is unknown", "processor\t: 0\n", "unknown CPU"},
		{"no file is unknown", "", "unknown CPU"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, cpuModel(c.cpuinfo))
		})
	}
}

func TestLoadAverage(t *testing.T) {
	require.Equal(t, "3.70, 4.59, 3.58", loadAverage("3.70 4.59 3.58 2/345 6789\n"))
	require.Equal(t, "0.00, 0.01, 0.05", loadAverage("0.00 0.01 0.05 1/80 12\n"))
	require.Equal(t, "unknown", loadAverage(""), "a system without the file")
}

func TestFileSystem(t *testing.T) {
	const mounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /mnt rw - tmpfs tmpfs rw
24 22 0:6 / /mnt/a\040b rw master:2 - xfs /dev/sdb rw
25 22 0:7 / /over rw - ext4 /dev/sdc rw
26 25 0:8 / /over rw - overlay overlay rw
broken line
`
	for _, c := range []struct{ rule, mounts, dir, want string }{
		{"a path on no other mount is on the root", mounts, "/var/x", "ext4"},
		{"a mount point is on its own file system", mounts, "/mnt", "tmpfs"},
		{"the longest mount point wins", mounts, "/mnt/a b/c", "xfs"},
		{"a name that only begins like a mount point is not below it", mounts, "/mntx", "ext4"},
		{"a later mount hides an earlier one at the same point", mounts, "/over/x", "overlay"},
		{"no table is unknown", "", "/var", "an unknown file system"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, fileSystem(c.mounts, c.dir))
		})
	}
}

func TestVersions(t *testing.T) {
	require.Equal(t, []string{
		"github.com/jackc/pgx/v5 v5.1.2", "go.etcd.io/bbolt => ../bbolt",
		"github.com/redis/rueidis => example.com/fork v1.0.0",
	},
		versions([]*debug.Module{
			{Path: "github.com/jackc/pgx/v5", Version: "v5.1.2"},
			{Path: "github.com/stretchr/testify", Version: "v1.0.0"},
			{Path: "go.etcd.io/bbolt", Version: "v1.4.0", Replace: &debug.Module{Path: "../bbolt"}},
			{
				Path: "github.com/redis/rueidis", Version: "v1.0.1",
				Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.0"},
			},
		}, []string{"github.com/jackc/pgx/v5", "github.com/redis/rueidis", "go.etcd.io/bbolt"}))
}
