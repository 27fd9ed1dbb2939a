"""Maintaining an installation: checks, licences, and backups of runs and indexes."""
