"""One small tree of errors: each message is a sentence for the user, saying what, where and what to do."""


class FactlearnError(Exception):
    """Base of every error a user can cause or cure; the CLI prints it and exits with code 2."""


class FactError(FactlearnError):
    """A fact or a query that cannot be read."""


class LanguageError(FactlearnError):
    """Word vectors that cannot be loaded, or a word that has none."""


class AssetError(FactlearnError):
    """A named asset that is unknown, unreachable or not what it should be."""


class DatasetError(FactlearnError):
    """A dataset, a manifest row or a task split that cannot be used."""


class ImageError(FactlearnError):
    """An image that cannot be decoded safely."""


class StorageError(FactlearnError):
    """Object storage that cannot be asked, or does not give what it was asked for."""


class ConfigError(FactlearnError):
    """A configuration that does not say something runnable."""


class RunError(FactlearnError):
    """A run directory that is missing, incomplete or of another kind."""


class ProcessLost(RunError):
    """One of the processes that learn together has ended."""


class StoppedError(FactlearnError):
    """Work that somebody asked to end, by SIGTERM; what was done is kept."""


class ModelError(FactlearnError):
    """A model that cannot be built or does not fit its weights."""


class FactIndexError(FactlearnError):
    """An index that is missing, damaged, or of another model or language."""


class IndexBusyError(FactIndexError):
    """An index that another process is writing; trying again later helps."""


class BackupError(FactlearnError):
    """A backup that cannot be made, or an archive that is damaged or not to be trusted."""
