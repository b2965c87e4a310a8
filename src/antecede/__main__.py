"""``python -m antecede``: the same as the program ``antecede``."""

from antecede_command import main

if __name__ == "__main__":
    main()
