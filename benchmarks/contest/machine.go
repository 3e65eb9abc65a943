package contest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// describe prints the facts that the figures depend on: the machine, its load, the file system and the versions of
// the peers.
func describe(w io.Writer, dir string, modules []string) {
	fmt.Fprintf(w, "machine  %s, %d cores, GOMAXPROCS %d, %s/%s, %s\n",
		cpuModel(read("/proc/cpuinfo")), runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	fs := fileSystem(read("/proc/self/mountinfo"), dir)
	if fs == "tmpfs" || fs == "ramfs" {
		fs += ", in memory: a sync costs nothing there, so the durable scenarios prove nothing (use -dir)"
	}
	fmt.Fprintf(w, "load     %s at the start\n", loadAverage(read("/proc/loadavg")))
	fmt.Fprintf(w, "files    on %s\n", fs)
	fmt.Fprintf(w, "peers    %s\n", strings.Join(peers(modules), ", "))
}

// read returns a file that only Linux has, empty elsewhere.
func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(content)
}

// cpuModel finds the model in the text of /proc/cpuinfo.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// loadAverage returns the averages over 1, 5 and 15 minutes from the text of /proc/loadavg.
func loadAverage(loadavg string) string {
	fields := strings.Fields(loadavg)
	if len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], ", ")
}

// fileSystem finds the type of the file system that dir is on in the text of /proc/self/mountinfo (proc(5)).
func fileSystem(mountinfo, dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	found, length := "an unknown file system", -1
	for line := range strings.Lines(mountinfo) {
		mount, rest, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(mount), strings.Fields(rest)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		point := unescape(fields[4])
		inside := dir == point || strings.HasPrefix(dir, strings.TrimSuffix(point, "/")+"/")
		if inside && len(point) >= length { // of two mounts at one point the later one hides the other
			found, length = types[0], len(point)
		}
	}
	return found
}

// unescape undoes mountinfo's octal form of blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// peers returns the modules of the build with their versions.
func peers(modules []string) []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return versions(info.Deps, modules)
}

func versions(deps []*debug.Module, wanted []string) (found []string) {
	for _, m := range deps {
		switch {
		case !slices.Contains(wanted, m.Path):
		case m.Replace != nil:
			found = append(found, strings.TrimSpace(m.Path+" => "+m.Replace.Path+" "+m.Replace.Version))
		default:
			found = append(found, m.Path+" "+m.Version)
		}
	}
	return found
}

// Caption returns the machine, Go's version, the checkout's commit and the date, for a page's text. A checkout with
// changes has "with changes" after its commit.
func Caption() string {
	commit := git("rev-parse", "--short=9", "HEAD")
	if commit == "" {
		commit = "unknown"
	} else if git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += " with changes"
	}
	return fmt.Sprintf("%d cores of %s, %s, commit %s, %s", runtime.NumCPU(), cpuModel(read("/proc/cpuinfo")),
		runtime.Version(), commit, time.Now().UTC().Format(time.DateOnly))
}

// git returns the trimmed output of a command of git, and "" if it fails.
func git(args ...string) string {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
