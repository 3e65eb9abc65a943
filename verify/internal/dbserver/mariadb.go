package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver that asks the server whether it is ready
)

// MariaDB starts a MariaDB. Its URL is a data source name without a database. A commit is written and not synced,
// because a killed server loses no write that the kernel has.
func MariaDB() (*Server, error) {
	binary, err := Find("mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := Find("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	dir, err := newDir("mysql")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	// A server deletes the temporary tables that it finds when it starts, also those of other servers.
	common := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir}
	if os.Geteuid() == 0 {
		common = append(common, "--user=mysql")
	}
	args := append(slices.Clone(common), "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", install, err, out), os.RemoveAll(dir))
	}
	s := &Server{dir: dir}
	return launch(s, func(port int) {
		s.URL = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)
		s.command = func() *exec.Cmd {
			return exec.Command(binary, append(slices.Clone(common), "--bind-address=127.0.0.1",
				fmt.Sprint("--port=", port), "--socket="+filepath.Join(dir, "socket"),
				"--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--innodb-buffer-pool-size=64M",
				"--max-connections=400", "--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")...)
		}
		s.ready = func(ctx context.Context) error {
			db, err := sql.Open("mysql", s.URL+"?timeout=2s&readTimeout=2s")
			if err != nil {
				return err
			}
			defer func() { _ = db.Close() }()
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			return db.PingContext(ctx)
		}
	})
}
