package boltstore

import "fmt"

// persist makes the content of the file durable: it writes the first pages again, and syncs. A process that died in a
// commit may leave a meta page that is not on disk. Its successor sees the commit, and overwrites pages of the one
// before. A power cut that lost the meta page would then damage the file. A sync alone is not enough, because it does
// not repeat the writes of an earlier one that failed.
func (s *Store) persist(pages int) error {
	content := make([]byte, pages*s.db.Info().PageSize)
	_, err := s.file.ReadAt(content, 0)
	if err == nil {
		_, err = s.file.WriteAt(content, 0)
	}
	if err == nil {
		err = s.db.Sync()
	}
	if err != nil {
		return fmt.Errorf("making its last commit durable: %w", err)
	}
	return nil
}

// certain makes durable a commit that may have failed late, before the next commit overwrites pages of the one before
// it. The write lock is held.
func (s *Store) certain() error {
	s.mu.Lock()
	suspect := s.suspect
	s.mu.Unlock()
	if !suspect {
		return nil
	}
	err := s.persist(metaPages)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.breakDown(err)
	}
	return err
}
