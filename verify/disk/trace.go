package disk

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// traced are the system calls that can change a file. Parse refuses those that it does not know if they concern the
// recorded directory.
const traced = "openat,open,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,fsync," +
	"fdatasync,sync_file_range,sync,syncfs,msync,mmap,rename,renameat,renameat2,unlink,unlinkat,link,linkat," +
	"symlink,symlinkat,copy_file_range,sendfile,splice,io_uring_setup,io_uring_enter"

var (
	callPattern  = regexp.MustCompile(`^(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(?:<([^>]*)>)?( .*)?$`)
	filePattern  = regexp.MustCompile(`^(\d+)<([^>]*)>$`)
	unfinished   = regexp.MustCompile(` <(?:unfinished|detached) \.\.\.>$`)
	resumedAfter = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
)

// A parser turns strace's output into Calls.
type parser struct {
	dir     string
	open    map[string]string // process → its unfinished call
	calls   []Call
	running string // process whose call on the directory is unfinished
}

// Parse reads the output of strace about the files of a directory. It refuses overlapping calls on them, because their
// order on the disk would not be known. It drops calls that strace replaced by a success.
func Parse(trace io.Reader, dir string) ([]Call, error) {
	p := parser{dir: dir, open: map[string]string{}}
	lines := bufio.NewScanner(trace)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		process, text, _ := strings.Cut(lines.Text(), " ")
		if err := p.line(process, strings.TrimLeft(text, " ")); err != nil {
			return nil, fmt.Errorf("disk: the trace has the line %.300q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("disk: reading the trace: %w", err)
	}
	// A call that never returned belongs to a process that was killed in it.
	for _, text := range p.open {
		if err := p.call(text+") = ?", acknowledges(text)); err != nil {
			return nil, err
		}
	}
	return p.calls, nil
}

func (p *parser) line(process, text string) error {
	// strace writes question marks when it leaves a thread that has ended before its call was read.
	if strings.HasPrefix(text, "+++") || strings.HasPrefix(text, "---") || strings.HasPrefix(text, "???(") {
		return nil
	}
	if m := resumedAfter.FindStringSubmatch(text); m != nil {
		begun := p.open[process]
		delete(p.open, process)
		if p.running == process {
			p.running = ""
		}
		return p.call(begun+m[1], acknowledges(begun))
	}
	begun := unfinished.ReplaceAllLiteralString(text, "")
	ours := p.concerns(text) && !strings.HasPrefix(text, "mmap(") // mappings are only read
	if ours && p.running != "" {
		return fmt.Errorf("it overlaps with a call of process %s on the same directory", p.running)
	}
	if begun == text {
		return p.call(text, false)
	}
	p.open[process] = begun
	if ours {
		p.running = process
	}
	if acknowledges(begun) { // an acknowledgement counts from the moment at which it may be seen
		return p.call(begun+") = 0", false)
	}
	return nil
}

func acknowledges(text string) bool { return strings.HasPrefix(text, "write(1<") }

// concerns reports whether a call is about a file of the directory. What a process prints may contain its name.
func (p *parser) concerns(text string) bool {
	var dir strings.Builder
	for _, c := range []byte(p.dir) {
		fmt.Fprintf(&dir, `\x%02x`, c)
	}
	return strings.Contains(text, dir.String()) && !acknowledges(text) && !strings.HasPrefix(text, "write(2<")
}

// call adds a complete call. noted is set for the end of an acknowledgement that was added before.
func (p *parser) call(text string, noted bool) error {
	m := callPattern.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("it is no system call")
	}
	name, args, result := m[1], strings.Split(m[2], ", "), m[3]
	if name == "write" && strings.HasPrefix(args[0], "1<") {
		if noted {
			return nil
		}
		data, err := decode(args[1])
		p.calls = append(p.calls, Call{Kind: Ack, Data: data})
		return err
	}
	if !p.concerns(text) {
		return nil
	}
	failed := strings.HasPrefix(result, "-")
	if !failed && strings.Contains(m[5], "INJECTED") {
		return nil
	}
	c, err := p.decode(name, args, m[4])
	switch {
	case err != nil || c.Path == "":
		return err
	case c.Kind != Sync && c.Kind != SyncDir:
		if failed {
			return nil // nothing was changed
		}
	case result == "?":
		return nil // the process was killed in the sync
	}
	if n, err := strconv.Atoi(result); c.Kind == Write && err == nil {
		c.Data = c.Data[:n]
	}
	c.Failed = failed
	p.calls = append(p.calls, c)
	return nil
}

// decode returns the Call. Its path is empty if the call changes nothing.
func (p *parser) decode(name string, args []string, opened string) (c Call, err error) {
	switch name {
	case "openat":
		if strings.Contains(args[2], "O_TRUNC") {
			return c, fmt.Errorf("files that are opened with O_TRUNC are not known here")
		}
		c.Kind = Create
		if strings.Contains(args[2], "O_CREAT") {
			c.Path, err = unhex(opened)
		}
		return c, err
	case "mmap":
		if strings.Contains(args[2], "PROT_WRITE") && strings.Contains(args[3], "MAP_SHARED") {
			return c, fmt.Errorf("writes through a mapping can't be recorded")
		}
		return c, nil
	case "pwrite64":
		c.Kind = Write
		if c.Data, err = decode(args[1]); err != nil {
			return c, err
		}
		if c.Offset, err = strconv.ParseInt(args[3], 10, 64); err != nil {
			return c, err
		}
	case "ftruncate":
		c.Kind = Truncate
		if c.Size, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			return c, err
		}
	case "fsync", "fdatasync":
		c.Kind = Sync
	default:
		return c, fmt.Errorf("the call %s is not known here", name)
	}
	m := filePattern.FindStringSubmatch(args[0])
	if m == nil {
		return c, fmt.Errorf("its first argument is no file")
	}
	if c.Path, err = unhex(m[2]); err != nil {
		return c, err
	}
	if c.Kind == Sync && c.Path == p.dir {
		c.Kind = SyncDir
	}
	return c, nil
}

// decode returns the bytes of a quoted string.
func decode(arg string) ([]byte, error) {
	text, quoted := strings.CutPrefix(arg, `"`)
	text, ended := strings.CutSuffix(text, `"`)
	if !quoted || !ended {
		return nil, fmt.Errorf("the argument %.40q is not a whole string", arg)
	}
	s, err := unhex(text)
	return []byte(s), err
}

func unhex(text string) (string, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	return string(b), err
}
